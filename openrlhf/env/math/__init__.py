"""Grading of final answers to mathematics problems."""
