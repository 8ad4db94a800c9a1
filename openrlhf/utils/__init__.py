"""Documented import paths of the public API."""
