"""Rules of vision-language training: what has not been proven together with images is refused by name."""

from openrlhf.config.draft import Draft
from openrlhf.config.optimiser import has_critic


def resolve_vision(draft: Draft) -> None:
    """Look at what images cannot be combined with. Whether the model takes any shows when its config is read."""
    config = draft.config
    if config.data.max_images_per_prompt == 0:
        return
    images = f"--data.max_images_per_prompt {config.data.max_images_per_prompt}"
    if has_critic(config):
        draft.problem(
            f"--algo.advantage.estimator gae with {images}: its critic sees no images; use reinforce_baseline, rloo or "
            "group_norm"
        )
    if config.reward.models:
        draft.problem(
            f"--reward.model_name_or_path with {images}: reward models read text only; use --reward.remote_url"
        )
    if config.train.partial_rollout_enable and not config.actor.freeze_visual_encoder:
        draft.problem(
            f"--train.partial_rollout_enable with {images}: a running request keeps what the old encoder made of its "
            "images; add --actor.freeze_visual_encoder, or leave it out"
        )
