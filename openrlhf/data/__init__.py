"""Prompts: reading them, their order, and what became of each."""
