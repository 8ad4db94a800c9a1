import os

import pytest

from deepgym.sandbox.runner.wire import HEAD, FrameBuffer, pack, read_frame, unpack


def test_frames_come_back_in_one_piece_however_they_are_cut():
    data = pack({"a": 1}, [b"x", b"", b"\x00\xff"]) + pack({"b": "ü"})
    expected = [({"a": 1}, [b"x", b"", b"\x00\xff"]), ({"b": "ü"}, [])]
    for cut in range(len(data)):
        buffer = FrameBuffer(max_bytes=1000)
        assert buffer.feed(data[:cut]) + buffer.feed(data[cut:]) == expected


def test_a_frame_that_announces_too_much_is_refused_before_it_is_kept():
    buffer = FrameBuffer(max_bytes=100)
    with pytest.raises(ValueError, match="at most 100"):
        buffer.feed(HEAD.pack(50, 51))


def test_blobs_must_fill_the_frame():
    with pytest.raises(ValueError, match="names 1"):
        unpack(b'{"blobs": [1]}', b"xy")


def test_read_frame_takes_no_byte_of_the_next_one():
    reader, writer = os.pipe()
    os.write(writer, pack({"n": 1}, [b"one"]) + b"rest")
    assert read_frame(reader) == ({"n": 1}, [b"one"])
    assert os.read(reader, 100) == b"rest"
    os.close(writer)
    with pytest.raises(EOFError):
        read_frame(reader)
    os.close(reader)
