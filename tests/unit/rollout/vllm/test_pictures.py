"""Decoded images are shared, and bounded."""

from dataclasses import replace

from openrlhf.rollout.vllm.pictures import Pictures
from openrlhf.types import EncodedImage
from tests.pictures import picture

RED, BLUE, LIME = (picture(colour, 30, 20) for colour in ("red", "blue", "lime"))  # 1800 bytes decoded


def test_an_image_is_decoded_once_for_all_who_show_it():
    pictures = Pictures()
    assert pictures.of(RED) is pictures.of(replace(RED, source="another row"))
    assert pictures.of(RED).getpixel((0, 0)) == (255, 0, 0)


def test_those_used_longest_ago_are_given_up(monkeypatch):
    decoded, decode = [], EncodedImage.decode
    monkeypatch.setattr(EncodedImage, "decode", lambda image: decoded.append(image) or decode(image))
    pictures = Pictures(limit_bytes=2 * 1800)
    for image in (RED, BLUE, RED, LIME, RED, BLUE):  # LIME pushes BLUE out
        pictures.of(image)
    assert decoded == [RED, BLUE, LIME, BLUE]


def test_an_image_over_the_limit_is_not_kept(monkeypatch):
    pictures = Pictures(limit_bytes=1799)
    assert pictures.of(RED) is not pictures.of(RED)
