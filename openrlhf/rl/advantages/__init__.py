"""Advantage estimators: one small file each, found through `registry`."""
