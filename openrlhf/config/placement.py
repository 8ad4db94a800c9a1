"""How many processes each part gets, and whether the machine has room for them.

A node's GPUs hold, without colocation, actor | reference | critic | reward | engines side by side, each as far as it
exists; with `train.colocate_actor_ref` the reference lies on the actor's, with `train.colocate_critic_reward` the
reward models lie on the critic's, with `train.colocate_all` everything lies on the same ones.
"""

from openrlhf.config.draft import Draft
from openrlhf.config.model import ActorConfig, CriticConfig, RefConfig
from openrlhf.config.optimiser import has_critic
from openrlhf.config.ppo import PPOConfig
from openrlhf.config.reward import RewardConfig

_NAMES = {"ref": "reference", "critic": "critic", "reward": "reward model"}


def resolve_placement(draft: Draft) -> None:
    """Fix actor.num_gpus_per_node, vllm.num_engines, and the numbers of nodes and GPUs of every other role."""
    actor = draft.config.actor
    if draft.config.device == "cpu":
        _set_default(draft, "actor.num_gpus_per_node", actor.num_gpus_per_node, 1)
        _set_default(draft, "vllm.num_engines", draft.config.vllm.num_engines, 1)
    elif draft.config.train.colocate_all:
        _colocated(draft)
    else:
        _separate(draft)
    for role, section in other_roles(draft.config).items():
        if f"{role}.num_nodes" not in draft.given:
            draft.set(f"{role}.num_nodes", actor.num_nodes)
        _set_default(draft, f"{role}.num_gpus_per_node", section.num_gpus_per_node, _actor_gpus(draft))
    if draft.config.device == "cuda":
        _check_colocation(draft)
        _check_room(draft)


def other_roles(config: PPOConfig) -> dict[str, RefConfig | CriticConfig | RewardConfig]:
    """The trainer roles of this run beside the actor, by the section of their flags."""
    roles: dict[str, RefConfig | CriticConfig | RewardConfig] = {}
    if config.algo.kl.init_coef > 0:
        roles["ref"] = config.ref
    if has_critic(config):
        roles["critic"] = config.critic
    if config.reward.models:
        roles["reward"] = config.reward
    return roles


def _hosts(config: PPOConfig) -> dict[str, str]:
    """Whose GPUs each other role shares; a role that is missing here has its own."""
    roles = other_roles(config)
    if config.train.colocate_all:
        return dict.fromkeys(roles, "actor")
    hosts = {"ref": "actor"} if config.train.colocate_actor_ref and "ref" in roles else {}
    if config.train.colocate_critic_reward and {"critic", "reward"} <= roles.keys():
        hosts["reward"] = "critic"
    return hosts


def _set_default(draft: Draft, path: str, value: int | None, default: int) -> None:
    if value is None:
        draft.set(path, default)


def _actor_gpus(draft: Draft) -> int:
    gpus = draft.config.actor.num_gpus_per_node
    assert gpus is not None, "set before"
    return gpus


def _colocated(draft: Draft) -> None:
    config, machine_gpus = draft.config, draft.machine.num_gpus
    if config.actor.num_gpus_per_node is None and not machine_gpus:
        draft.problem("--actor.num_gpus_per_node is missing, and this machine has no GPU to count")
    _set_default(draft, "actor.num_gpus_per_node", config.actor.num_gpus_per_node, max(machine_gpus, 1))
    world = config.actor.num_nodes * _actor_gpus(draft)
    _set_default(draft, "vllm.num_engines", config.vllm.num_engines, max(world // config.vllm.tensor_parallel_size, 1))


def _separate(draft: Draft) -> None:
    """Engines get half of the machine unless told otherwise; the trainer's roles share the rest evenly."""
    config, tp = draft.config, draft.config.vllm.tensor_parallel_size
    free = draft.machine.num_gpus
    apart = {role: own for role, own in other_roles(config).items() if role not in _hosts(config)}
    fixed = sum(own.num_gpus_per_node or 0 for own in apart.values())
    shares = 1 + sum(own.num_gpus_per_node is None for own in apart.values())
    if config.actor.num_gpus_per_node is None:
        engines = config.vllm.num_engines or max(free // 2 // tp, 1)
        actor = (free - engines * tp - fixed) // shares
        if actor < 1:
            names = ["the actor", *(f"the {_NAMES[role]}" for role in apart), "the engines"]
            parts = f"{', '.join(names[:-1])} and {names[-1]}"
            draft.problem(
                f"--actor.num_gpus_per_node is missing, and this machine's {free} GPUs are too few to give {parts} "
                "GPUs of their own; add --train.colocate_all"
            )
            _set_default(draft, "vllm.num_engines", config.vllm.num_engines, 1)
        draft.set("actor.num_gpus_per_node", max(actor, 1))
    if draft.config.vllm.num_engines is None:
        rest = free - _actor_gpus(draft) * shares - fixed
        if rest < tp:
            draft.problem(
                f"--vllm.num_engines is missing, and the trainer leaves {max(rest, 0)} of this machine's {free} GPUs; "
                "give the number, fewer GPUs to the actor, or --train.colocate_all"
            )
        draft.set("vllm.num_engines", max(rest * config.actor.num_nodes // tp, 1))


def _check_colocation(draft: Draft) -> None:
    """Parts on the same GPUs need the same number of them. On CPU they are processes, and any numbers fit."""
    config = draft.config
    sections: dict[str, ActorConfig | RefConfig | CriticConfig | RewardConfig] = {"actor": config.actor}
    sections |= other_roles(config)
    for role, host in _hosts(config).items():
        own, other = sections[role], sections[host]
        if (own.num_nodes, own.num_gpus_per_node) == (other.num_nodes, other.num_gpus_per_node):
            continue
        flag = "colocate_actor_ref" if role == "ref" else "colocate_critic_reward"
        draft.problem(
            f"--train.{'colocate_all' if config.train.colocate_all else flag}: the {host} has {other.num_nodes} x "
            f"{other.num_gpus_per_node} GPUs and the {_NAMES[role]} {own.num_nodes} x {own.num_gpus_per_node}; give "
            f"--{role}.num_nodes and --{role}.num_gpus_per_node the {host}'s numbers"
        )
    if not config.train.colocate_all:
        return
    trainer_gpus = config.actor.num_nodes * _actor_gpus(draft)
    engine_gpus = (config.vllm.num_engines or 0) * config.vllm.tensor_parallel_size
    if trainer_gpus != engine_gpus:
        draft.problem(
            f"--train.colocate_all: the actor has {trainer_gpus} GPUs, but --vllm.num_engines "
            f"{config.vllm.num_engines} x --vllm.tensor_parallel_size {config.vllm.tensor_parallel_size} take "
            f"{engine_gpus}; make them equal"
        )


def _check_room(draft: Draft) -> None:
    """On one machine of known size the parts must fit; a cluster is asked when it places them."""
    config = draft.config
    if draft.cluster or draft.problems:
        return
    parts = {"actor": config.actor.num_nodes * _actor_gpus(draft)}
    parts |= {
        _NAMES[role]: own.num_nodes * (own.num_gpus_per_node or 0)
        for role, own in other_roles(config).items()
        if role not in _hosts(config)
    }
    if not config.train.colocate_all:
        parts["engines"] = (config.vllm.num_engines or 0) * config.vllm.tensor_parallel_size
    needed = sum(parts.values())
    if needed > draft.machine.num_gpus:
        listed = ", ".join(f"{name} {gpus}" for name, gpus in parts.items())
        draft.problem(
            f"--actor.num_gpus_per_node {config.actor.num_gpus_per_node}: the run needs {needed} GPUs ({listed}) and "
            f"this machine has {draft.machine.num_gpus}; lower the counts, add --train.colocate_all, or start a Ray "
            "cluster"
        )
