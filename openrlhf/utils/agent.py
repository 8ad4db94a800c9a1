"""The public agent API under its documented path."""

from openrlhf.rollout.single_turn import SingleTurnExecutor

__all__ = ["SingleTurnExecutor"]
