"""Training workers: one process is one rank, driven by method calls."""
