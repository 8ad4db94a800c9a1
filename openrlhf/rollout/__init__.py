"""Prompts in, graded rollouts out: executors, the generator that runs them, and the vLLM backend in `vllm/`."""
