"""One thin main per command."""
