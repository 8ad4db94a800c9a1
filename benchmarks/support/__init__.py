"""What the benchmarks share. Scripts of `benchmarks/` find it because their own folder is first on the import path."""
