"""The rollout backend. vLLM is imported here and nowhere else; `args` and `environment` import nothing heavy."""
