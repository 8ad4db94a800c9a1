"""Environments and graders of verifiable tasks."""
