"""One seed per sample, a pure function of who the sample is: the same run draws the same samples again."""

import hashlib
import struct


def named_seed(*identity: str | int) -> int:
    """Return a seed in [0, 2**63) of whatever names tell its owner apart; it depends on no process state."""
    digest = hashlib.blake2b(repr(identity).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def sample_seed(run_seed: int, draw: int, prompt_id: int, sample_index: int) -> int:
    """Return the seed of one sample, in [0, 2**63).

    `draw` tells apart repeated draws of a prompt (the rollout step). The seed is the first 8 bytes of BLAKE2b over
    the four numbers as big-endian 64-bit integers, shifted right by one bit; it depends on no process state.
    """
    identity = struct.pack(">4q", run_seed, draw, prompt_id, sample_index)
    digest = hashlib.blake2b(identity, digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1
