"""One seed per sample, a pure function of who the sample is: the same run draws the same samples again."""

import hashlib
import struct


def sample_seed(run_seed: int, draw: int, prompt_id: int, sample_index: int) -> int:
    """Return the seed of one sample, in [0, 2**63).

    `draw` tells apart repeated draws of a prompt (the rollout step). The seed is the first 8 bytes of BLAKE2b over
    the four numbers as big-endian 64-bit integers, shifted right by one bit; it depends on no process state.
    """
    identity = struct.pack(">4q", run_seed, draw, prompt_id, sample_index)
    digest = hashlib.blake2b(identity, digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def turn_seed(seed: int | None, turn: int) -> int | None:
    """Return the seed of one turn of a sample: of turn 0 the sample's own, of later ones a hash of seed and turn.

    With one seed for all turns an engine would draw the same random numbers in each. None stays None.
    """
    if seed is None or turn == 0:
        return seed
    digest = hashlib.blake2b(struct.pack(">2Q", seed % 2**64, turn), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1
