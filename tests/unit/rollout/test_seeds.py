import hashlib
import itertools

from openrlhf.rollout.seeds import sample_seed


def test_the_seed_is_the_documented_hash():
    # Spelled out: 42, 3, 7 and 1 as big-endian 64-bit integers, BLAKE2b of 8 bytes, shifted right by one.
    text = b"".join(number.to_bytes(8, "big") for number in (42, 3, 7, 1))
    expected = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") // 2
    assert sample_seed(42, 3, 7, 1) == expected


def test_every_part_of_the_identity_matters():
    identities = itertools.product(range(4), repeat=4)
    seeds = [sample_seed(*identity) for identity in identities]
    assert len(set(seeds)) == 4**4
    assert all(0 <= seed < 2**63 for seed in seeds)
