"""How many processes each part gets, and whether the machine has room for them.

A node's GPUs hold, without colocation, actor | reference | engines side by side; with `train.colocate_actor_ref` the
reference lies on the actor's; with `train.colocate_all` everything lies on the same ones.
"""

from openrlhf.config.draft import Draft


def resolve_placement(draft: Draft) -> None:
    """Fix actor.num_gpus_per_node, vllm.num_engines and, where there is a reference, ref.num_nodes and
    ref.num_gpus_per_node."""
    actor = draft.config.actor
    if draft.config.device == "cpu":
        _set_default(draft, "actor.num_gpus_per_node", actor.num_gpus_per_node, 1)
        _set_default(draft, "vllm.num_engines", draft.config.vllm.num_engines, 1)
    elif draft.config.train.colocate_all:
        _colocated(draft)
    else:
        _separate(draft)
    if has_reference(draft):
        if "ref.num_nodes" not in draft.given:
            draft.set("ref.num_nodes", actor.num_nodes)
        _set_default(draft, "ref.num_gpus_per_node", draft.config.ref.num_gpus_per_node, _actor_gpus(draft))
    _check_colocation(draft)
    if draft.config.device == "cuda":
        _check_room(draft)


def has_reference(draft: Draft) -> bool:
    return draft.config.algo.kl.init_coef > 0


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
    """Engines get half of the machine unless told otherwise; actor and reference share the rest evenly."""
    config, tp = draft.config, draft.config.vllm.tensor_parallel_size
    free = draft.machine.num_gpus
    shared = config.train.colocate_actor_ref or not has_reference(draft)
    if config.actor.num_gpus_per_node is None:
        engines = config.vllm.num_engines or max(free // 2 // tp, 1)
        rest = free - engines * tp
        ref = config.ref.num_gpus_per_node
        actor = rest if shared else rest // 2 if ref is None else rest - ref
        if actor < 1:
            parts = "the actor and the engines" if shared else "the actor, the reference and the engines"
            draft.problem(
                f"--actor.num_gpus_per_node is missing, and this machine's {free} GPUs are too few to give {parts} "
                "GPUs of their own; add --train.colocate_all"
            )
            _set_default(draft, "vllm.num_engines", config.vllm.num_engines, 1)
        draft.set("actor.num_gpus_per_node", max(actor, 1))
    if draft.config.vllm.num_engines is None:
        actor = _actor_gpus(draft)
        rest = free - actor - (0 if shared else config.ref.num_gpus_per_node or actor)
        if rest < tp:
            draft.problem(
                f"--vllm.num_engines is missing, and the trainer leaves {max(rest, 0)} of this machine's {free} GPUs; "
                "give the number, fewer GPUs to the actor, or --train.colocate_all"
            )
        draft.set("vllm.num_engines", max(rest * config.actor.num_nodes // tp, 1))


def _check_colocation(draft: Draft) -> None:
    """Parts on the same GPUs need the same number of them. On CPU they are processes, and any numbers fit."""
    config = draft.config
    if config.device == "cpu":
        return
    shared = config.train.colocate_all or config.train.colocate_actor_ref
    actor = (config.actor.num_nodes, config.actor.num_gpus_per_node)
    ref = (config.ref.num_nodes, config.ref.num_gpus_per_node)
    if shared and has_reference(draft) and actor != ref:
        flag = "colocate_all" if config.train.colocate_all else "colocate_actor_ref"
        draft.problem(
            f"--train.{flag}: the actor has {actor[0]} x {actor[1]} GPUs and the reference {ref[0]} x {ref[1]}; give "
            "--ref.num_nodes and --ref.num_gpus_per_node the actor's numbers"
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
    actor = config.actor.num_nodes * _actor_gpus(draft)
    engines = (config.vllm.num_engines or 0) * config.vllm.tensor_parallel_size
    ref_apart = has_reference(draft) and not (config.train.colocate_all or config.train.colocate_actor_ref)
    ref = config.ref.num_nodes * (config.ref.num_gpus_per_node or 0) if ref_apart else 0
    needed = actor if config.train.colocate_all else actor + ref + engines
    if needed > draft.machine.num_gpus:
        draft.problem(
            f"--actor.num_gpus_per_node {config.actor.num_gpus_per_node}: the run needs {needed} GPUs (actor {actor}, "
            f"reference {ref}, engines {engines}) and this machine has {draft.machine.num_gpus}; lower the counts, add "
            "--train.colocate_all, or start a Ray cluster"
        )
