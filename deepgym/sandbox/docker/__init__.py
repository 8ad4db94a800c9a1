"""The docker backend: a fresh container for each answer, on any engine that speaks the Docker API."""
