"""The tokens of one episode, its budget and its counts."""

from dataclasses import replace
from typing import Any

from openrlhf.env.code_result import CodeResult
from openrlhf.env.episode.budget import plan_budget
from openrlhf.env.episode.seeds import turn_seed
from openrlhf.env.episode.tokens import EpisodeTokens
from openrlhf.prompt_tokens import opening_id, prompt_ids
from openrlhf.types import RUNNER_DOWN, Completion, RewardOutcome, SamplingParams, Segment, Trajectory

TOO_LONG = "The output is too long to be shown."


class TirEpisode:
    """Prompt, actions and results in one trajectory.

    The response has at most `sampling.max_tokens` tokens, those of results included, and the whole at most
    `max_length`. `truncated` once the response was cut short: an action ended for length, a result did not fit, or no
    room is left for another action.
    """

    def __init__(self, prompt: str, sampling: SamplingParams, max_length: int, tokenizer: Any) -> None:
        """Of a prompt too long beside the response the end is kept. ValueError if no token is left."""
        ids, opening = prompt_ids(tokenizer, prompt), opening_id(tokenizer)
        budget = plan_budget(ids, sampling.max_tokens, max_length, opening=opening)
        self._tokenizer = tokenizer
        self._sampling = sampling
        self._end = len(budget.prompt_token_ids) + budget.max_tokens
        self.tokens = EpisodeTokens(budget.prompt_token_ids)
        self.truncated = False
        self.runs = 0
        self.errors = 0
        self._last_failed = False
        self._down = ""
        self._actions = 0

    def request(self, stops: tuple[str, ...]) -> SamplingParams | None:
        """How to sample the next action; None, and truncated, where no token may follow."""
        room = self._end - len(self.tokens)
        if room <= 0:
            self.truncated = True
            return None
        stop = tuple(dict.fromkeys((*self._sampling.stop, *stops)))
        bias = None if self._sampling.logit_bias is None else dict(self._sampling.logit_bias)
        seed = turn_seed(self._sampling.seed, self._actions)
        least = min(self._sampling.min_tokens, room)
        return replace(self._sampling, max_tokens=room, min_tokens=least, stop=stop, seed=seed, logit_bias=bias)

    def act(self, completion: Completion) -> str:
        """Take in a sampled action; its text, special tokens kept."""
        self.tokens.act(completion)
        self.truncated = completion.finish_reason == "length"
        self._actions += 1
        ids = completion.token_ids.tolist()
        return str(self._tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False))

    def observe(self, result: CodeResult, most_tokens: int) -> bool:
        """Append a result; False where the episode ends with it.

        It ends, truncated, where no room is left for another action, and where the program could not be run: no verdict
        is to be had then, whatever the policy would say. A block of more than `most_tokens` tokens says instead that
        the result was too long.
        """
        self.runs += 1
        self.errors += result.error
        self._last_failed = result.error
        self._down = result.down
        ids = self._ids(result.text)
        if len(ids) > most_tokens:
            ids = self._ids(TOO_LONG)
        room = self._end - len(self.tokens)
        self.tokens.observe(ids[:room])
        self.truncated = len(ids) >= room
        return not self.truncated and not self._down

    def trajectory(self) -> Trajectory:
        """The record, without an outcome: the reward of the task gives it, unless a program could not be run.

        Facts: `code_runs`, `code_errors`, `runner_down`, and where anything was run `last_failed` and
        `code_success_rate`.
        """
        segments: tuple[Segment, ...] = (self.tokens.segment(),) if self.tokens.has_actions else ()
        facts = {
            "code_runs": float(self.runs),
            "code_errors": float(self.errors),
            RUNNER_DOWN: float(bool(self._down)),
        }
        if self.runs:
            facts |= {"last_failed": float(self._last_failed), "code_success_rate": 1 - self.errors / self.runs}
        outcome = RewardOutcome.ungraded(f"a code block could not be run: {self._down}") if self._down else None
        return Trajectory(segments, self.truncated, outcome, facts)

    def _ids(self, result: str) -> list[int]:
        """What a program prints is text: an end token or a turn of somebody else that it writes does not become one."""
        block = f"\n```output\n{result}\n```\n\n\n"
        if not _reads_control_tokens(self._tokenizer):
            return list(self._tokenizer(block, add_special_tokens=False)["input_ids"])
        return list(self._tokenizer(block, add_special_tokens=False, split_special_tokens=True)["input_ids"])


def _reads_control_tokens(tokenizer: Any) -> bool:
    """Whether a control token that is written in a text becomes its id, as far as the end token shows. Those of
    mistral_common (tekken) never do, and refuse to be told so."""
    end = tokenizer.eos_token
    return end is None or tokenizer.eos_token_id in tokenizer(end, add_special_tokens=False)["input_ids"]
