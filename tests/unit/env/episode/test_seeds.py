import hashlib

from openrlhf.env.episode.seeds import turn_seed


def test_the_first_turn_has_the_samples_seed_and_later_ones_their_own():
    text = (42).to_bytes(8, "big") + (3).to_bytes(8, "big")
    expected = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") // 2
    assert (turn_seed(42, 0), turn_seed(42, 3), turn_seed(None, 3)) == (42, expected, None)
    assert len({turn_seed(seed, turn) for seed in range(8) for turn in range(1, 8)}) == 56
