"""Puzzles whose answers reasoning-gym checks."""
