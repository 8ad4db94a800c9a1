"""Processes: placement, Ray actors and groups of them. The only room that imports ray."""
