"""From a checked config to responses on disk and a summary.

open inputs -> start engine -> sample every prompt n times, each finished group written at once -> summarise
"""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from openrlhf.config.evaluate import EvaluateConfig
from openrlhf.config.yaml_file import to_yaml
from openrlhf.env.env_config import environments_of
from openrlhf.env.task_rewards import TaskRewards
from openrlhf.pipeline.evaluation.engine import started_engine
from openrlhf.pipeline.evaluation.inputs import EvaluationInputs, open_inputs
from openrlhf.pipeline.evaluation.progress import run_all
from openrlhf.pipeline.evaluation.responses import failure_of, response_row
from openrlhf.pipeline.evaluation.summary import summarise, table
from openrlhf.rollout.environments import Environments
from openrlhf.rollout.errors import GenerationError
from openrlhf.rollout.generator import RolloutGenerator
from openrlhf.rollout.seeds import sample_seed
from openrlhf.track.errors import TrackError
from openrlhf.types import Prompt, SamplingParams

_WAITING = 4  # samples begun, over those that the engine decodes at once: it never waits for a new prompt
Show = Callable[[str], None]


def evaluate(config: EvaluateConfig, show: Show = print) -> dict[str, Any]:
    """Run a resolved config; returns the summary, which also lies in summary.json.

    Raises:
        ConfigError: an input cannot be used. TrackError: neither can the folder. GenerationError, EndpointDown,
            EngineDead, EnvError, RewardError: the evaluation broke, or no sample got a verdict; what was finished is in
            responses.jsonl.
    """
    folder = _folder(config)
    inputs = open_inputs(config)
    (folder / "config.yaml").write_text(to_yaml(config))
    rows = asyncio.run(_sample(config, inputs, folder / "responses.jsonl", show))
    summary = summarise(rows, config.eval, config.train.seed)
    (folder / "summary.json").write_text(json.dumps(summary, indent=2) + "\n")
    show(table(summary, config.eval))
    if all(row["score"] is None for row in rows):
        raise GenerationError(f"no sample has a verdict; the first: {rows[0]['reason']}")
    show(f"responses {folder / 'responses.jsonl'}\nsummary   {folder / 'summary.json'}")
    return summary


async def _sample(config: EvaluateConfig, inputs: EvaluationInputs, file: Path, show: Show) -> list[dict[str, Any]]:
    n, prompts = config.eval.n_samples_per_prompt, inputs.prompts
    sampling = SamplingParams(
        temperature=config.eval.temperature, top_p=config.eval.top_p, max_tokens=config.rollout.max_new_tokens
    )
    rows: list[dict[str, Any]] = []
    environments = Environments(environments_of(config.env), config.env.max_episodes)
    tasks = TaskRewards(config.env, inputs.tokenizer)
    with file.open("w", encoding="utf-8") as lines:
        async with started_engine(config, inputs.tokenizer, inputs.vision) as engine:
            generator = RolloutGenerator(
                engine=engine,
                executor=inputs.executor,
                reward=inputs.reward,
                tokenizer=inputs.tokenizer,
                max_length=config.data.max_len,
                tolerate_failures=config.train.agent_func_path is not None or config.endpoint.url is not None,
                environments=environments,
                max_generations=config.env.max_generations,
                generation_timeout=config.env.request_timeout,
                tasks=tasks,
            )
            width = config.endpoint.max_concurrent if config.endpoint.url else config.vllm.max_num_seqs
            places = asyncio.Semaphore(max(1, _WAITING * width // n))

            async def one(prompt: Prompt) -> None:
                seeds = [sample_seed(config.train.seed, 0, prompt.prompt_id, index) for index in range(n)]
                async with places:
                    result = await generator.run_group(prompt, str(prompt.prompt_id), n, sampling, seeds)
                for rollout in result.group.rollouts:
                    row = dict(response_row(rollout, failure_of(rollout, config.eval.pass_threshold)))
                    rows.append(row)
                    lines.write(json.dumps(row, ensure_ascii=False) + "\n")
                lines.flush()
                if _tells(len(rows) // n, len(prompts)):
                    show(f"{len(rows) // n} of {len(prompts)} prompts")

            try:
                await run_all(one, prompts, config.eval.timeout, config.endpoint.url or "vLLM engine")
            finally:
                await _close(inputs, environments, tasks)
    return sorted(rows, key=lambda row: (row["prompt_id"], row["sample"]))


async def _close(inputs: EvaluationInputs, environments: Environments, tasks: TaskRewards) -> None:
    await inputs.executor.close()
    await environments.close()
    await tasks.close()
    if inputs.reward is not None:
        await inputs.reward.close()


def _tells(done: int, total: int) -> bool:
    """Ten lines of progress, whatever the number of prompts."""
    return done * 10 // total > (done - 1) * 10 // total


def _folder(config: EvaluateConfig) -> Path:
    folder = Path(str(config.output_dir)).expanduser().absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TrackError(f"--output_dir {folder}: {error.strerror}; choose another") from error
    if not config.overwrite and any(folder.iterdir()):
        raise TrackError(f"--output_dir {folder}: holds files already; choose another, or add --overwrite")
    return folder
