"""Reward sources: a Python function, an HTTP server; every verdict is a typed `RewardOutcome`."""
