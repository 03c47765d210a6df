"""Pictures for README: small, and the same as what the browser drew."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from random import Random

import numpy as np
import pytest

from tests.console.browser.screenshots import BYTES_MAX, PICTURES, _chunk, decode, with_palette

IMAGES = Path(__file__).parents[2] / "docs" / "images"


def png(pixels: list[list[tuple[int, int, int]]], filters: list[int]) -> bytes:
    """Rows under PNG's filters, written the plain way."""
    width, rows, above = len(pixels[0]), b"", bytes(len(pixels[0]) * 3)
    for row, kind in zip(pixels, filters, strict=True):
        raw = bytes(value for pixel in row for value in pixel)
        coded = bytearray()
        for at, value in enumerate(raw):
            left, up = (raw[at - 3] if at >= 3 else 0), above[at]
            corner = above[at - 3] if at >= 3 else 0
            nearest = min((left, up, corner), key=lambda each: abs(left + up - corner - each))
            guess = (0, left, up, (left + up) // 2, nearest)[kind]
            coded.append((value - guess) & 0xFF)
        rows += bytes([kind]) + coded
        above = raw
    head = struct.pack(">IIBBBBB", width, len(pixels), 8, 2, 0, 0, 0)
    parts = _chunk(b"IHDR", head) + _chunk(b"IDAT", zlib.compress(rows)) + _chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


def test_every_filter_is_undone() -> None:
    rng = Random(3)
    pixels = [[(rng.randrange(256), rng.randrange(256), rng.randrange(256)) for _ in range(7)] for _ in range(10)]
    found = decode(png(pixels, [0, 1, 2, 3, 4] * 2))
    assert found.tolist() == [[list(pixel) for pixel in row] for row in pixels]


def test_few_colours_stay_exact_and_many_are_rounded() -> None:
    few = [[(10, 20, 30), (200, 100, 0)] * 4 for _ in range(3)]
    small = with_palette(png(few, [0, 0, 0]))
    assert small[25] == 3, "it has a palette"
    assert len(small) < 200
    many = [[(x * 4, y * 4, (x + y) * 2) for x in range(60)] for y in range(60)]
    assert len(with_palette(png(many, [0] * 60))) < 6_000


@pytest.mark.parametrize("name", [picture.name for picture in PICTURES])
def test_pictures_are_there_and_small(name: str) -> None:
    image = (IMAGES / f"{name}.png").read_bytes()
    assert image.startswith(b"\x89PNG") and len(image) <= BYTES_MAX
    assert np.frombuffer(image[16:24], ">u4").tolist() == [1280, 800]
