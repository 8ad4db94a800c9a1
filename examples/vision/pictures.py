"""The pictures of the vision example, drawn by itself: one square to name the colour of, or several shapes to count."""

import random

from PIL import Image, ImageDraw

SIDE = 32
COLOURS = {"red": (220, 40, 40), "green": (40, 180, 60), "blue": (50, 80, 220), "yellow": (230, 210, 50)}
MOST_SHAPES = 4


def square(colour: str, rng: random.Random) -> Image.Image:
    """A square of that colour somewhere on grey."""
    image = Image.new("RGB", (SIDE, SIDE), (128, 128, 128))
    size = rng.randint(SIDE // 2, SIDE * 3 // 4)
    x, y = rng.randint(0, SIDE - size), rng.randint(0, SIDE - size)
    ImageDraw.Draw(image).rectangle((x, y, x + size - 1, y + size - 1), fill=COLOURS[colour])
    return image


def shapes(count: int, rng: random.Random) -> Image.Image:
    """So many white discs on black, none touching another: each has a quarter of the picture to itself."""
    image = Image.new("RGB", (SIDE, SIDE))
    draw, half = ImageDraw.Draw(image), SIDE // 2
    for place in rng.sample(range(MOST_SHAPES), count):
        size = rng.randint(half // 2, half - 4)
        x = (place % 2) * half + rng.randint(2, half - size - 2)
        y = (place // 2) * half + rng.randint(2, half - size - 2)
        draw.ellipse((x, y, x + size - 1, y + size - 1), fill="white")
    return image
