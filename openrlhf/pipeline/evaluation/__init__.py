"""Evaluation as a command of its own: a model or a served endpoint over datasets, without Ray and without training."""
