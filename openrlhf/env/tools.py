"""What task rewards may use beside the sample: verifiers, and the flags of their terms."""

from openrlhf.config.env import EnvConfig
from openrlhf.config.terms import TermsConfig
from openrlhf.env.verifiers.judge_model import JudgeModel
from openrlhf.env.verifiers.math import MathVerifier, make_math_verifier
from openrlhf.env.verifiers.puzzles import PuzzleVerifier


class TaskTools:
    """One per process. Worker processes and connections are opened when they are first needed."""

    def __init__(
        self,
        env: EnvConfig,
        math: MathVerifier | None = None,
        judge: JudgeModel | None = None,
        puzzles: PuzzleVerifier | None = None,
    ) -> None:
        """What is not given is made from the flags."""
        self.terms: TermsConfig = env.terms
        self.math = math or make_math_verifier(env)
        self.judge = judge or (JudgeModel(env) if env.verifier.judge_enable else None)  # None: no model is asked
        self.puzzles = puzzles or PuzzleVerifier()

    async def close(self) -> None:
        await self.math.close()
        await self.puzzles.close()
        if self.judge is not None:
            await self.judge.close()
