"""The service that `deepgym serve` runs: reward endpoints, code execution for tools, metrics and a page for people."""
