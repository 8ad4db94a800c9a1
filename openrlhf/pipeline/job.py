"""What a training loop holds while it runs."""

from dataclasses import dataclass, field, replace
from typing import Any

from openrlhf.cluster.launch import Cluster
from openrlhf.config.ppo import PPOConfig
from openrlhf.data.ledger import PromptLedger
from openrlhf.data.loader import PromptLoader
from openrlhf.data.prompts import PromptSet
from openrlhf.pipeline.clock import PhaseClock
from openrlhf.pipeline.length import RunLength, resumed_steps
from openrlhf.pipeline.score_range import ScoreRangeWatch
from openrlhf.pipeline.verdicts import VerdictWatch
from openrlhf.rl.kl import KLController
from openrlhf.rl.running_normaliser import RunningNormaliser
from openrlhf.track.tracker import RunTracker


@dataclass(slots=True)
class Job:
    """One run: its configuration, its processes, and everything that changes from step to step."""

    config: PPOConfig
    cluster: Cluster
    loader: PromptLoader
    ledger: PromptLedger
    kl: KLController
    tracker: RunTracker
    length: RunLength
    derived: frozenset[str] = frozenset()  # flags of the config that follow from others
    eval_prompts: PromptSet | None = None
    normaliser: RunningNormaliser | None = None  # None: rewards keep their scale
    cut_prompts: frozenset[int] = frozenset()  # ids of the prompts that are too long and lose their beginning
    verdicts: VerdictWatch = field(default_factory=VerdictWatch)
    scores: ScoreRangeWatch = field(default_factory=ScoreRangeWatch)
    clock: PhaseClock = field(default_factory=PhaseClock)
    step: int = 0  # finished steps: rollout batches trained on
    version: int = 0  # of the policy's weights, one more after each update
    draws: int = 0  # prompts drawn so far by the asynchronous sampler
    redrawn: set[tuple[int, int]] = field(default_factory=set)  # (episode, prompt) that it drew once more as too old

    def state_dict(self) -> dict[str, Any]:
        """Everything outside the worker processes that a resumed run needs."""
        return {
            "step": self.step,
            "version": self.version,
            "draws": self.draws,
            "redrawn": sorted(self.redrawn),
            "loader": self.loader.state_dict(),
            "ledger": self.ledger.state_dict(),
            "kl": self.kl.state_dict(),
            "normaliser": None if self.normaliser is None else self.normaliser.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there; the steps that are left are counted anew, since the batch size may be another now."""
        self.step, self.version, self.draws = state["step"], state["version"], state["draws"]
        self.redrawn = {(episode, prompt_id) for episode, prompt_id in state["redrawn"]}
        self.loader.load_state_dict(state["loader"])
        self.ledger.load_state_dict(state["ledger"])
        self.kl.load_state_dict(state["kl"])
        if self.normaliser is not None and state["normaliser"] is not None:
            self.normaliser.load_state_dict(state["normaliser"])
        steps = resumed_steps(self.step, self.loader, self.ledger, self.config.rollout, self.config.train)
        self.length = replace(self.length, steps=steps)
        self.tracker.go_on_after(self.step)
        self.tracker.expect(steps)
