"""Tests of openrlhf and deepgym."""
