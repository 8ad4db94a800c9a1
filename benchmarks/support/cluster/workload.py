"""How long things take: the response lengths and delays of samples, the seconds of a training step."""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

Draw = Callable[[random.Random], float]


def constant(value: float) -> Draw:
    return lambda _: value


def uniform(low: float, high: float) -> Draw:
    return lambda generator: generator.uniform(low, high)


def observed(values: Sequence[float]) -> Draw:
    """One of the values, all equally likely."""
    return lambda generator: generator.choice(values)


def lognormal(mean: float, sigma: float, longest: float) -> Draw:
    """exp(N(log(mean) - sigma**2 / 2, sigma)), so that `mean` is the mean before what is above `longest` is cut."""
    location = math.log(mean) - sigma**2 / 2
    return lambda generator: min(longest, generator.lognormvariate(location, sigma))


@dataclass(frozen=True, slots=True)
class Workload:
    """What a run asks for.

    `delay`: seconds that the reward of a sample takes. `graders`: of how many samples of an engine at once; the others
    wait for their turn.
    """

    response_tokens: Draw
    delay: Draw
    groups: int  # rollout.batch_size
    samples: int  # rollout.n_samples_per_prompt
    graders: int | None = None  # None: of all at once


@dataclass(frozen=True, slots=True)
class Training:
    """Seconds of a step: `fixed` + `per_token` * sampled tokens, then `load` in every engine for the new weights."""

    fixed: float
    per_token: float
    load: float

    def seconds(self, tokens: float) -> float:
        return self.fixed + self.per_token * tokens
