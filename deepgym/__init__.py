"""Verifiable environments, a sandbox for untrusted answers and a reward endpoint."""
