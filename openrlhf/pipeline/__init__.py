"""Training loops, written as lists of named stages."""
