import logging

import pytest

from deepgym.integrations.masked_rate import MaskedRate


@pytest.mark.parametrize(("masked", "warnings"), [(5, 0), (6, 1)])
def test_more_than_five_of_a_hundred_is_worth_a_warning(caplog, masked, warnings):
    rate = MaskedRate("add")
    for index in range(100):
        rate.count(index < masked)
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * warnings
    if warnings:
        assert "add: 6 of the last 100 samples got no verdict (6 of 100 since start)" in caplog.text


def test_blocks_do_not_overlap(caplog):
    """Ten masked samples in a row, five at the end of one block and five at the start of the next."""
    rate = MaskedRate("add")
    for index in range(200):
        rate.count(95 <= index < 105)
    assert caplog.records == []
    assert (rate.samples, rate.masked) == (200, 10)


def test_nothing_is_said_before_a_block_is_full(caplog):
    rate = MaskedRate("add")
    for _ in range(99):
        rate.count(True)
    assert caplog.records == []
    rate.count(True)
    assert len(caplog.records) == 1
