"""One seed per turn of a sample: with one seed for all turns an engine would draw the same random numbers in each."""

import hashlib
import struct


def turn_seed(seed: int | None, turn: int) -> int | None:
    """Return the seed of one turn of a sample: of turn 0 the sample's own, of later ones a hash of seed and turn.

    None stays None.
    """
    if seed is None or turn == 0:
        return seed
    digest = hashlib.blake2b(struct.pack(">2Q", seed % 2**64, turn), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1
