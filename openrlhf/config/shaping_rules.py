"""Rules of what happens to rewards between the verdict and the advantage: penalties, weights, dynamic filtering."""

from openrlhf.config.draft import Draft
from openrlhf.config.env_rules import overlong_problems


def resolve_shaping(draft: Draft) -> None:
    """Length penalties, several reward models, dynamic filtering."""
    _lengths(draft)
    _weights(draft)
    if draft.config.algo.dynamic_filtering_enable:
        _filtering(draft)


def _lengths(draft: Draft) -> None:
    reward, limit = draft.config.reward, draft.config.rollout.max_new_tokens
    buffer = reward.overlong_buffer_len
    longest, flag = (limit, "--rollout.max_new_tokens") if limit else (draft.config.data.max_len, "--data.max_len")
    if buffer is not None and buffer > longest:
        draft.problem(f"--reward.overlong_buffer_len {buffer:g}: more than {flag} {longest}; use at most that")
    draft.problems += overlong_problems(draft.config.env, flag, longest)


def _weights(draft: Draft) -> None:
    reward = draft.config.reward
    if reward.models and reward.model_weights is not None and len(reward.model_weights) != len(reward.models):
        draft.problem(
            f"--reward.model_weights: {len(reward.model_weights)} weights for {len(reward.models)} reward models in "
            "--reward.model_name_or_path"
        )


def _filtering(draft: Draft) -> None:
    config = draft.config
    n = config.rollout.n_samples_per_prompt
    if n < 2:
        draft.problem(
            f"--algo.dynamic_filtering_enable: looks at the spread of a prompt's samples; give "
            f"--rollout.n_samples_per_prompt 2 or more, not {n}"
        )
    if config.reward.models and config.reward.remote_url is None:
        draft.problem(
            "--algo.dynamic_filtering_enable: decides while engines generate, so it needs the scores of "
            "--reward.remote_url (a serve_rm address, or a Python file), not --reward.model_name_or_path"
        )
