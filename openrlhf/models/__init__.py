"""Hugging Face models: loading them for training, choosing their attention, writing them back."""
