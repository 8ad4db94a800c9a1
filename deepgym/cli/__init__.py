"""The command `deepgym`."""
