"""Clients of the services that judge answers, and what stands in for them in this process."""
