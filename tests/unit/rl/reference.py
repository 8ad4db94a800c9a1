"""Float64 references in plain Python loops, written from the formulas and not from the code under test."""

import math
from collections.abc import Sequence

Row = Sequence[float]
KL_LIMIT = RATIO_LIMIT = 20.0


def log_softmax(logits: Row, temperature: float) -> list[float]:
    scaled = [z / temperature for z in logits]
    top = max(scaled)
    log_total = top + math.log(math.fsum(math.exp(z - top) for z in scaled))
    return [z - log_total for z in scaled]


def entropy(logits: Row, temperature: float) -> float:
    return -math.fsum(math.exp(lp) * lp for lp in log_softmax(logits, temperature))


def kl(new: float, ref: float, estimator: str) -> float:
    d = min(max(new - ref, -KL_LIMIT), KL_LIMIT)
    return {"k1": d, "k2": d * d / 2, "k3": math.exp(-d) - 1 + d}[estimator]


def estimate(name: str, rewards: Row, group_ids: Sequence[int]) -> list[float]:
    """The scalar advantage of every sample."""
    result = []
    for i, (reward, group_id) in enumerate(zip(rewards, group_ids, strict=True)):
        members = [r for r, g in zip(rewards, group_ids, strict=True) if g == group_id]
        others = [r for j, (r, g) in enumerate(zip(rewards, group_ids, strict=True)) if g == group_id and j != i]
        mean = math.fsum(members) / len(members)
        if name in ("gae", "reinforce"):
            result.append(float(reward))
        elif max(members) - min(members) <= 1e-6:
            result.append(0.0)
        elif name == "rloo":
            result.append(reward - math.fsum(others) / len(others))
        elif name == "group_norm":
            variance = math.fsum((r - mean) ** 2 for r in members) / (len(members) - 1)
            result.append((reward - mean) / (math.sqrt(variance) + 1e-9))
        else:
            result.append(reward - mean)
    return result


def returns(token_rewards: Row, action_mask: Sequence[bool], gamma: float) -> list[float]:
    """G_t = sum over action tokens u >= t of gamma^(number of actions between) r_u."""
    actions = [t for t, acts in enumerate(action_mask) if acts]
    result = [0.0] * len(action_mask)
    for place, t in enumerate(actions):
        result[t] = math.fsum(gamma**k * token_rewards[u] for k, u in enumerate(actions[place:]))
    return result


def normalise(values: Sequence[Row], mask: Sequence[Sequence[bool]], no_std_norm: bool) -> list[list[float]]:
    chosen = [v for row, flags in zip(values, mask, strict=True) for v, m in zip(row, flags, strict=True) if m]
    if not chosen:
        return [[0.0] * len(row) for row in values]
    mean = math.fsum(chosen) / len(chosen)
    variance = math.fsum((v - mean) ** 2 for v in chosen) / len(chosen)
    scale = 1.0 if no_std_norm else math.sqrt(max(variance, 1e-8))
    return [
        [(v - mean) / scale if m else 0.0 for v, m in zip(row, flags, strict=True)]
        for row, flags in zip(values, mask, strict=True)
    ]


def importance_weight(kind: str, ratios: Row, i: int, low: float, high: float) -> float:
    """The weight of token i of a sequence whose loss tokens have these log-ratios old - rollout."""
    w = math.exp(min(max(ratios[i], -RATIO_LIMIT), RATIO_LIMIT))
    if kind == "tis":
        return min(max(w, low), high)
    if kind == "icepop":
        return w if low <= w <= high else 0.0
    if kind == "seq-tis":
        return min(max(math.exp(min(max(math.fsum(ratios), -RATIO_LIMIT), RATIO_LIMIT)), low), high)
    mean = math.exp(math.fsum(ratios) / len(ratios))
    return min(max(w, low), high) if low <= mean <= high else 0.0


def ppo_token(new: float, old: float, advantage: float, low: float, high: float, dual: float | None) -> float:
    ratio = math.exp(min(max(new - old, -RATIO_LIMIT), RATIO_LIMIT))
    smaller = min(ratio * advantage, min(max(ratio, 1 - low), 1 + high) * advantage)
    if dual is not None and advantage < 0:
        smaller = max(smaller, dual * advantage)
    return -smaller


def policy_token(
    loss_type: str, new: Row, old: Row, advantages: Row, i: int, low: float, high: float, dual: float | None
) -> float:
    """The loss of token i of a sequence whose loss tokens have these numbers."""
    if loss_type == "ppo":
        return ppo_token(new[i], old[i], advantages[i], low, high, dual)
    if loss_type == "cispo":
        ratio = math.exp(min(max(new[i] - old[i], -RATIO_LIMIT), RATIO_LIMIT))
        return -min(max(ratio, 1 - low), 1 + high) * advantages[i] * new[i]
    mean = math.fsum(n - o for n, o in zip(new, old, strict=True)) / len(new)
    return ppo_token(mean, 0.0, advantages[i], low, high, dual)


def aggregate(sequences: Sequence[Row], mode: str, length: int = 1) -> float:
    """Mean over all tokens of all sequences, mean over sequences of their token means, or of their sums over `length`.

    Empty sequences do not count.
    """
    filled = [row for row in sequences if len(row) > 0]
    if mode == "constant":
        return math.fsum(v for row in filled for v in row) / (length * len(filled))
    if mode == "token":
        return math.fsum(v for row in filled for v in row) / sum(map(len, filled))
    return math.fsum(math.fsum(row) / len(row) for row in filled) / len(filled)


def gae(rewards: Row, values: Row, action_mask: Sequence[bool], gamma: float, lambd: float) -> list[float]:
    """A_t = sum over action tokens u >= t of (gamma lambda)^(actions between) delta_u."""
    actions = [t for t, acts in enumerate(action_mask) if acts]
    deltas = []
    for place, t in enumerate(actions):
        following = values[actions[place + 1]] if place + 1 < len(actions) else 0.0
        deltas.append(rewards[t] + gamma * following - values[t])
    result = [0.0] * len(action_mask)
    for place, t in enumerate(actions):
        result[t] = math.fsum((gamma * lambd) ** k * delta for k, delta in enumerate(deltas[place:]))
    return result


def value_token(value: float, old: float, target: float, clip: float | None) -> float:
    errors = [(value - target) ** 2]
    if clip is not None:
        errors.append((old + min(max(value - old, -clip), clip) - target) ** 2)
    return max(errors) / 2
