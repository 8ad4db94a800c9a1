"""Doors for trainers: an HTTP router for OpenRLHF, reward functions for TRL and verl."""
