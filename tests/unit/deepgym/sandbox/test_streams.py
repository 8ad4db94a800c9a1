import os

from deepgym.sandbox.runner.streams import Collector, Feeder


def test_a_collector_keeps_its_cap_and_one_byte_as_the_sign_of_more():
    reader, writer = os.pipe()
    collector = Collector(reader, cap=10)
    os.write(writer, b"x" * 10)
    collector.serve()
    assert not collector.full
    os.write(writer, b"y" * 1000)
    collector.serve()
    assert collector.full
    assert len(collector.data) == 11
    assert collector.take() == b"x" * 10
    os.close(writer)
    os.close(reader)


def test_a_collector_sees_the_end():
    reader, writer = os.pipe()
    collector = Collector(reader, cap=10)
    os.close(writer)
    collector.serve()
    assert not collector.open
    os.close(reader)


def test_a_feeder_writes_what_fits_and_closes_at_the_end():
    reader, writer = os.pipe()
    data = os.urandom(200_000)  # more than a pipe holds
    feeder = Feeder(writer, data, close_after=True)
    received = b""
    while feeder.open:
        feeder.serve()
        received += os.read(reader, 1 << 17)
    while part := os.read(reader, 1 << 17):
        received += part
    assert received == data
    os.close(reader)


def test_a_feeder_gives_up_when_nobody_reads():
    reader, writer = os.pipe()
    os.close(reader)
    feeder = Feeder(writer, b"x", close_after=True)
    feeder.serve()
    assert not feeder.open
