"""Rules of the optimisers, per model that is trained: what DeepSpeed's Muon cannot do is refused by name."""

from openrlhf.config.draft import Draft
from openrlhf.config.model import ActorConfig, CriticConfig
from openrlhf.config.ppo import PPOConfig


def has_critic(config: PPOConfig) -> bool:
    """Whether the run trains a value model."""
    return config.algo.advantage.estimator == "gae"


def check_optimisers(draft: Draft) -> None:
    """Look at the config as it was given: on CPU the device rules switch ds.adam_offload off."""
    trained: list[tuple[str, ActorConfig | CriticConfig]] = [("actor", draft.config.actor)]
    if has_critic(draft.config):
        trained.append(("critic", draft.config.critic))
    for name, model in trained:
        if model.optim == "muon":
            _muon(draft, name, model)


def _muon(draft: Draft, name: str, model: ActorConfig | CriticConfig) -> None:
    ds = draft.config.ds
    if ds.adam_offload:
        draft.problem(f"--{name}.optim muon: cannot be offloaded; leave --ds.adam_offload out")
    if ds.zero_stage == 3:
        draft.problem(
            f"--{name}.optim muon: not with --ds.zero_stage 3, whose gradients are scattered before Muon sees a whole "
            "matrix; use --ds.zero_stage 2 or lower"
        )
    if model.muon.ns_steps != 5:
        draft.problem(f"--{name}.muon.ns_steps {model.muon.ns_steps}: DeepSpeed's Muon always takes 5; leave it out")
    if not model.muon.nesterov:
        draft.problem(f"--{name}.muon.nesterov False: DeepSpeed's Muon always uses Nesterov momentum; leave it out")
