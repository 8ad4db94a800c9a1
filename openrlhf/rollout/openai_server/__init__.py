"""An OpenAI-style chat server in front of an engine that keeps every session's exact tokens for training."""
