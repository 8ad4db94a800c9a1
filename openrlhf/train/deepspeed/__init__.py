"""The DeepSpeed training backend; the only place that imports deepspeed."""
