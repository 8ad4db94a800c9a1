"""Sending the policy's weights to the engines; the receiving side is rollout/vllm/receiver.py."""
