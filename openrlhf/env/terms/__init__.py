"""Terms of task rewards that need no verifier: format, length, repetition, words, use of code."""
