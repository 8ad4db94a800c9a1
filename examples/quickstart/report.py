"""Print what a run of an example changed.

python3 examples/quickstart/report.py runs/quickstart
"""

import json
import sys
from pathlib import Path


def report(run: Path) -> str:
    """The table of held-out scores, the training time, and where the pictures lie."""
    before, after = (json.loads((run / f"score_{when}.json").read_text()) for when in ("before", "after"))
    steps = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    seconds = sum(step.get("timing/step_total") or 0.0 for step in steps)
    lines = [
        f"held-out reward, {before['prompts']} prompts   before    after",
        f"  greedy                      {before['greedy']:>6.3f}   {after['greedy']:>6.3f}",
        f"  sampled, temperature 1      {before['sampled']:>6.3f}   {after['sampled']:>6.3f}",
        "",
        f"{max(step['step'] for step in steps)} steps in {seconds:.0f} s of training",
        f"curve    {run / 'reward_curve.png'}",
        f"metrics  {run / 'metrics.jsonl'}",
        f"samples  {run / 'rollouts'}",
        f"model    {run}",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    print(report(Path(sys.argv[1])))
