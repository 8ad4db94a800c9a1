"""Vision-language models: what they need beside a causal LM. A new architecture is an entry in `architectures.py`."""
