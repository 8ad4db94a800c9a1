"""Shared by all tests. Its presence beside `tests/__init__.py` puts the repository root on sys.path."""
