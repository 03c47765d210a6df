"""Pictures of the console: ``python -m tests.console.browser.screenshots docs/images .cache/screenshots [/topics]``.

A busy shop is served. Into the first folder go the pictures of README and docs, PNG with a palette, small enough for a
repository; into the second every page, in both themes and both widths, for somebody to look at.
"""

from __future__ import annotations

import re
import struct
import sys
import tempfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tests.console.browser.chromium import MISSING, Complaints, find_chromium, open_browser, open_context
from tests.console.browser.conftest import sign_in
from tests.console.browser.registry import addresses, addresses_with_ids, job_address, opened
from tests.console.browser.served import Served, served_pair, served_shop

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

BYTES_MAX: Final = 150_000
_CHART_MS: Final = 60_000
SIZE: Final = {"width": 1280, "height": 800}
THEMES: Final = ("light", "dark")
WIDTHS: Final = (1440, 390)
_FREQUENT: Final = 224  # colours of a picture that are kept because there is much of them
_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
_CHANNELS: Final = {2: 3, 6: 4}  # colour types of PNG

Pixels = npt.NDArray[np.uint8]


class Picture(NamedTuple):
    """``ready`` is a selector to wait for; ``points`` so many samples a live chart must have; ``click`` leads on."""

    name: str
    path: str
    theme: str
    ready: str = "main h1"
    points: int = 0
    click: str = ""


_POINTS: Final = 12

PICTURES: Final = (
    Picture("console-overview", "/", "light", "main svg.chart", points=_POINTS),
    Picture("console-topics", "/topics", "dark", "main table"),
    Picture("console-group", "/groups/billing", "light", "main table"),
    Picture("console-dead-letters", "/dead-letters/billing", "dark", "main table"),
    Picture("console-letter", "/dead-letters/billing", "light", "main .timeline", click="main table a.id"),
    Picture("console-delays", "/delays", "light", "main svg.chart"),
    Picture("console-store", "/store", "dark", "main table"),
)


def take(browser: Browser, served: Served, folder: Path) -> dict[str, int]:
    """Sizes of the pictures by name. Raises AssertionError when the browser complains."""
    complaints, sizes = Complaints(), {}
    with open_context(browser, complaints, base_url=served.url, viewport=SIZE) as context:
        page = context.new_page()
        sign_in(page, served)
        for picture in PICTURES:
            image = with_palette(_shot(page, picture))
            assert len(image) <= BYTES_MAX, f"{picture.name} has {len(image)} bytes"
            (folder / f"{picture.name}.png").write_bytes(image)
            sizes[picture.name] = len(image)
    assert not complaints.texts and not complaints.strangers, complaints
    return sizes


def take_all(browser: Browser, served: Served, folder: Path, only: str = "") -> list[Path]:
    """Every page of the registry from top to bottom, in both themes and both widths; ``only`` those with that text."""
    complaints, made = Complaints(), []
    with open_context(browser, complaints, base_url=served.url, reduced_motion="reduce") as context:
        page = context.new_page()
        sign_in(page, served)
        pair = served.shop is None
        if not pair:
            _wait_for_points(page, 4)
        for address in ["/replication"] if pair else [*addresses(), *addresses_with_ids(page), job_address(page)]:
            for theme in THEMES if only in address else ():
                for width in WIDTHS:
                    shown: Any = theme
                    page.emulate_media(color_scheme=shown)
                    page.set_viewport_size({"width": width, "height": 900})
                    if not opened(page, address):
                        continue
                    made.append(folder / f"{_name_of(address)}{'-set' if pair else ''}-{theme}-{width}.png")
                    page.screenshot(path=made[-1], full_page=True)
    assert not complaints.texts and not complaints.strangers, complaints
    return made


def _name_of(address: str) -> str:
    """The file of a page; ids in it, which differ from run to run, are left out."""
    path = re.sub(r"^https?://[^/]+", "", address)
    path = re.sub(r"/[0-9A-F]{24,}|/[0-9a-f]{6,}-[0-9a-f-]+", "/one", path.partition("client=")[0])
    return re.sub(r"\W+", "-", path).strip("-") or "overview"


def _wait_for_points(page: Page, points: int) -> None:
    """Until the chart of the overview has so many samples."""
    from playwright.sync_api import expect

    page.goto("/")
    line = page.locator("main svg.chart polyline").first
    expect(line).to_have_attribute("points", re.compile(rf"(\S+ ){{{points - 1}}}"), timeout=_CHART_MS)


def _shot(page: Page, picture: Picture) -> bytes:
    theme: Any = picture.theme
    page.emulate_media(color_scheme=theme, reduced_motion="reduce")
    if picture.points:
        _wait_for_points(page, picture.points)
    page.goto(picture.path)
    if picture.click:
        page.locator(picture.click).first.click()
    page.locator(picture.ready).first.wait_for()
    return page.screenshot()


# --- PNG with a palette --------------------------------------------------------------------------------------------


def with_palette(image: bytes) -> bytes:
    """The same picture in at most 256 colours: the most frequent ones stay exact, and those that no other is like."""
    pixels = decode(image)
    colours, places, counts = np.unique(pixels.reshape(-1, 3), axis=0, return_inverse=True, return_counts=True)
    kept = list(np.argsort(-counts, kind="stable")[:_FREQUENT])
    every = colours.astype(np.int32)
    near = ((every[:, None, :] - every[kept][None, :, :]) ** 2).sum(axis=2).min(axis=1)
    while len(kept) < 256 and near.any():  # a green dot among greys
        kept.append(int(near.argmax()))
        near = np.minimum(near, ((every - every[kept[-1]]) ** 2).sum(axis=1))
    palette = colours[kept]
    far = ((colours[:, None, :].astype(np.int32) - palette[None, :, :].astype(np.int32)) ** 2).sum(axis=2)
    nearest = far.argmin(axis=1).astype(np.uint8)
    height, width = pixels.shape[:2]
    rows = np.zeros((height, width + 1), np.uint8)  # each row begins with its filter: none
    rows[:, 1:] = nearest[places.reshape(height, width)]
    parts = (
        _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
        _chunk(b"PLTE", palette.tobytes()),
        _chunk(b"IDAT", zlib.compress(rows.tobytes(), 9)),
        _chunk(b"IEND", b""),
    )
    return _SIGNATURE + b"".join(parts)


def decode(image: bytes) -> Pixels:
    """Rows, columns, and red, green, blue of a PNG with 8 bits a channel, as browsers write it."""
    assert image.startswith(_SIGNATURE)
    at, data, head = len(_SIGNATURE), b"", b""
    while at < len(image):
        (size,), kind = struct.unpack_from(">I", image, at), image[at + 4 : at + 8]
        content = image[at + 8 : at + 8 + size]
        head, data = (content, data) if kind == b"IHDR" else (head, data + content if kind == b"IDAT" else data)
        at += size + 12
    width, height, depth, colours, _, _, interlaced = struct.unpack(">IIBBBBB", head)
    assert depth == 8 and not interlaced
    channels = _CHANNELS[colours]
    raw = np.frombuffer(zlib.decompress(data), np.uint8).reshape(height, width * channels + 1)
    above = np.zeros((width, channels), np.uint8)
    rows = []
    for row in raw:
        above = _unfiltered(int(row[0]), row[1:].reshape(width, channels), above)
        rows.append(above[:, :3])
    return np.stack(rows)


def _unfiltered(kind: int, row: Pixels, above: Pixels) -> Pixels:
    """A row as it was before PNG's filter: 0 none, 1 left, 2 above, 3 average, 4 Paeth."""
    if kind == 0:
        return row
    if kind == 2:
        return row + above
    if kind == 1:
        return np.cumsum(row, axis=0, dtype=np.uint8)
    found = np.zeros_like(row)
    left = np.zeros(row.shape[1], np.int16)
    corner = np.zeros(row.shape[1], np.int16)
    for column in range(len(row)):
        up = above[column].astype(np.int16)
        guess = (left + up) // 2 if kind == 3 else _paeth(left, up, corner)
        found[column] = (row[column].astype(np.int16) + guess) & 0xFF
        left, corner = found[column].astype(np.int16), up
    return found


def _paeth(left: Any, up: Any, corner: Any) -> Any:
    guess = left + up - corner
    to_left, to_up, to_corner = abs(guess - left), abs(guess - up), abs(guess - corner)
    return np.where((to_left <= to_up) & (to_left <= to_corner), left, np.where(to_up <= to_corner, up, corner))


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def main(folder: Path, every: Path | None = None, only: str = "") -> int:
    if not find_chromium():
        sys.stderr.write(f"{MISSING}\n")
        return 1
    for each in filter(None, (folder, every)):
        each.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as data, open_browser() as browser:
        with served_shop(Path(data) / "shop", trades=True) as served:
            made = take_all(browser, served, every, only) if every is not None else []
            for name, size in ({} if only else take(browser, served, folder)).items():
                sys.stdout.write(f"{folder / name}.png  {size // 1024} KiB\n")
        if every is not None:
            with served_pair(Path(data) / "pair") as served:
                made += take_all(browser, served, every, only)
            sys.stdout.write(f"{len(made)} pictures of all pages in {every}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:3] or ["docs/images"]), *sys.argv[3:]))
