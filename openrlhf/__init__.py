"""RL training of language models on Ray, vLLM, DeepSpeed and Transformers."""
