"""From the data of runs to one HTML file that needs nothing else: no network, no other file."""

import json
from collections.abc import Sequence
from html import escape
from importlib.resources import files

from openrlhf.track.report.run_data import RunData

_SCRIPTS = ("dom", "curves", "bars", "rollouts", "page")  # in the order in which they need each other
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
{style}
</style>
</head>
<body>
<header><h1>{title}</h1><div id="summary"></div></header>
<main>
<section><h2>Curves</h2><div class="controls" id="curve-controls"></div><div class="grid" id="curves"></div></section>
<section><h2>Time per step</h2><div id="timing"></div></section>
<section id="ledger-section"><h2>Prompts</h2><div id="ledger"></div></section>
<section><h2>Rollouts</h2><div class="controls" id="rollout-controls"></div><div id="rollouts"></div></section>
</main>
<script type="application/json" id="data">{data}</script>
<script>
{script}
</script>
</body>
</html>
"""


def render(runs: Sequence[RunData]) -> str:
    """The page. Text of models and datasets is data to the page's script, never markup."""
    assets = files("openrlhf.track.report")
    data = json.dumps({"runs": [run.to_json() for run in runs]}, allow_nan=False, separators=(",", ":"))
    # "</script>" or "<!--" inside a string would end the data early; the escaped sign is the same JSON.
    data = data.replace("<", "\\u003c")
    title = " and ".join(run.name for run in runs)
    return _PAGE.format(
        title=escape(title),
        style=(assets / "report.css").read_text(encoding="utf-8"),
        script="\n".join((assets / "script" / f"{name}.js").read_text(encoding="utf-8") for name in _SCRIPTS),
        data=data,
    )
