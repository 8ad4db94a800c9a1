"""Logic puzzles: knights and knaves, zebra puzzles."""
