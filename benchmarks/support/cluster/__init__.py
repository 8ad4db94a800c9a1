"""A discrete-event model of the training loop: what many engines and a trainer would do, without having them.

engine.py: one engine.   loop.py: sampler, buffer, trainer.   workload.py: how long everything takes.
measured.py: where the times come from.   study.py: calibration, check, predictions.   chart.py: the picture.
"""
