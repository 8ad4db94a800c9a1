"""A game of several turns: find a number from 1 to 7, hearing "higher" or "lower" after each guess, in three guesses.

    python3 examples/python/agent_func_higher_lower.py runs/data/numbers.jsonl      # writes the prompts
    python3 -m openrlhf.cli.train_ppo_ray --train.agent_func_path examples/python/agent_func_higher_lower.py \
        --data.prompt_dataset runs/data/numbers.jsonl --data.input_key prompt --data.label_key label ...

Structured outputs leave only the seven numbers to choose from, so that even a small model plays from the first step.
Three guesses find every number, if each halves what is left.
"""

import json
import sys
from pathlib import Path
from typing import Any

from openrlhf.utils.agent import AgentInstanceBase, MultiTurnAgentExecutor

NUMBERS = [str(number) for number in range(1, 8)]
MAX_GUESSES = 3
RULES = (
    "Find the number from 1 to 7. After a guess you hear if it is higher or lower.\nGuess: 4, lower. Guess: 2, right.\n"
)


class Game(AgentInstanceBase):
    """One game."""

    async def reset(self, states: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        # The end token of a choice is part of the action, so each guess is two tokens.
        states["sampling_params"].structured_outputs = {"choice": NUMBERS}
        return {"observation": states["observation"]}

    async def step(self, states: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        guess, secret = states["action_text"][:1], states["label"]
        right = guess == secret
        hint = "higher" if guess < secret else "lower"
        return {
            "rewards": float(right),
            "environment_feedback": f", {hint}. Guess: ",
            "done": right or states["turn"] == MAX_GUESSES - 1,
        }


class AgentExecutor(MultiTurnAgentExecutor):
    """What the trainer makes, without arguments, once per engine."""

    def __init__(self) -> None:
        super().__init__(Game)


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [{"prompt": f"{RULES}Game {game}. Guess: ", "label": NUMBERS[game % 7]} for game in range(280)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    print(f"{path}: {len(rows)} prompts")
