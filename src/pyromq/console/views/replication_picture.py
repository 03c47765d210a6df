"""Replication as a picture: each master with its replicas, how far behind they are, and the clock of its lease. Pure.

    ┌ broker-a  sync-master ┐      up to date      ┌ replica 1 ┐
    │ 10.0.0.1:10911   (7 s)│ ───────────────────▶ │ following │
    └───────────────────────┘                      └───────────┘

Text is escaped; colours are classes of the style sheet. Beside it a table has the same in words.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Final

from pyromq.charts import Svg
from pyromq.console.web.formatting import size
from pyromq.operate.replication import BrokerCopy
from pyromq.wording import shown_span

_WIDTH: Final = 760
_NARROW: Final = (322, 40, 34)  # width, indentation of replicas, room above each of them
_BOX: Final = (280, 84)
_GAP: Final = 16
_RADIUS: Final = 22
_DIAL_MS: Final = 10_000  # a whole turn of the clock
_FOLLOWING: Final = ("", "following")
_TEXT_MAX: Final = 34


def replication_picture(copies: Sequence[BrokerCopy]) -> Svg:
    """Draw every broker set, one below the other; empty without any."""
    parts, y = list[str](), 1
    for members in _sets(copies):
        masters = [each for each in members if each.number == 0]
        replicas = [each for each in members if each.number != 0]
        for number, replica in enumerate(replicas):
            top = y + number * (_BOX[1] + _GAP)
            parts += [_link(y, top, replica), _box(_WIDTH - _BOX[0] - 1, top, replica)]
        parts += [_box(1, y, master) for master in masters[:1]]
        parts += [] if masters else [f'<text x="12" y="{y + 30}">no master of {escape(members[0].broker)}</text>']
        y += max(1, len(replicas)) * (_BOX[1] + _GAP)
    return _drawing("", _WIDTH, y, parts)


def narrow_replication_picture(copies: Sequence[BrokerCopy]) -> Svg:
    """Draw the same for a narrow screen: replicas stand below their master."""
    width, indent, above = _NARROW
    parts, y = list[str](), 1
    for members in _sets(copies):
        masters = [each for each in members if each.number == 0]
        parts += [_box(1, y, master) for master in masters[:1]]
        parts += [] if masters else [f'<text x="12" y="{y + 30}">no master of {escape(members[0].broker)}</text>']
        bottom = y + _BOX[1]
        for replica in (each for each in members if each.number != 0):
            top, kind = y + _BOX[1] + above, copy_kind(replica)
            middle, text = top + _BOX[1] // 2, "" if replica.problem else _behind(replica)
            parts.append(f'<path class="link {kind}" d="M{indent // 2},{bottom} V{middle} H{indent - 8}"/>')
            parts.append(f'<path class="tip {kind}" d="M{indent},{middle} l-9,-5 v10 z"/>')
            parts.append(f'<text x="{indent + 2}" y="{top - 10}">{escape(text)}</text>')
            parts.append(_box(indent, top, replica))
            y = top
        y += _BOX[1] + 2 * _GAP
    return _drawing("narrow", width, y - _GAP, parts)


def _sets(copies: Sequence[BrokerCopy]) -> list[list[BrokerCopy]]:
    found: dict[str, list[BrokerCopy]] = {}
    for copy in copies:
        found.setdefault(copy.broker, []).append(copy)
    return list(found.values())


def _drawing(kind: str, width: int, height: int, parts: Sequence[str]) -> Svg:
    if not parts:
        return Svg()
    name = f"chart picture {kind}".strip()
    head = f'<svg class="{name}" viewBox="0 0 {width} {height}" role="img" aria-label="Brokers and their replicas">'
    return Svg(f"{head}{''.join(parts)}</svg>")


def copy_kind(copy: BrokerCopy) -> str:
    """How a copy is drawn: ``bad`` where it does not answer, ``warning`` where something is found, else ``ok``."""
    if copy.problem:
        return "bad"
    return "warning" if copy.findings or copy.state not in _FOLLOWING else "ok"


def _box(x: int, y: int, copy: BrokerCopy) -> str:
    width, height = _BOX
    title = f"{copy.broker}, {copy.role or ('master' if copy.number == 0 else 'replica')}"
    title += f" {copy.number}" if copy.number else ""
    state = "does not answer" if copy.problem else _state(copy)
    hint = "; ".join(copy.findings) or copy.problem or copy.reason or title
    lines = (("name", title, 24), ("mono", copy.address, 44), ("", state, 66))
    texts = (f'<text class="{name}" x="{x + 14}" y="{y + at}">{_cut(text)}</text>' for name, text, at in lines)
    frame = f'<rect class="box {copy_kind(copy)}" x="{x}" y="{y}" width="{width}" height="{height}" rx="8"/>'
    clock = _clock(x + width - _RADIUS - 12, y + height // 2, copy) if copy.granted_ms is not None else ""
    return f"<g><title>{escape(hint)}</title>{frame}{''.join(texts)}{clock}</g>"


def _state(copy: BrokerCopy) -> str:
    if copy.number:
        return copy.state or "following"
    words = [f"{copy.in_sync} in sync"] if copy.in_sync is not None else []
    words += [f"wrote {size(copy.end)}"] if copy.end is not None else []
    return ", ".join(words)


def _link(from_y: int, to_y: int, copy: BrokerCopy) -> str:
    left, right = _BOX[0] + 1, _WIDTH - _BOX[0] - 1
    begin, end, kind = from_y + _BOX[1] // 2, to_y + _BOX[1] // 2, copy_kind(copy)
    middle = (left + right) // 2
    path = f"M{left},{begin} C{middle},{begin} {middle},{end} {right - 8},{end}"
    arrow = f'<path class="tip {kind}" d="M{right},{end} l-9,-5 v10 z"/>'
    text = "" if copy.problem else _behind(copy)
    at = end - 8 if end == begin else end + 18  # a curve comes from above
    label = f'<text x="{right - 14}" y="{at}" text-anchor="end">{escape(text)}</text>'
    return f'<path class="link {kind}" d="{path}"/>{arrow}{label}'


def _behind(copy: BrokerCopy) -> str:
    if copy.behind_bytes is None:
        return ""
    return f"{size(copy.behind_bytes)} behind" if copy.behind_bytes else "up to date"


def _clock(x: int, y: int, copy: BrokerCopy) -> str:
    """A dial that shows how much of ten seconds a master may still acknowledge."""
    left_ms = max(0, copy.granted_ms or 0)
    share = min(1.0, left_ms / _DIAL_MS)
    turn = 2 * math.pi * min(share, 0.9999)
    end_x, end_y = x + _RADIUS * math.sin(turn), y - _RADIUS * math.cos(turn)
    arc = f"M{x},{y - _RADIUS} A{_RADIUS},{_RADIUS} 0 {int(share > 0.5)} 1 {end_x:.1f},{end_y:.1f}"
    kind = "ok" if left_ms > _DIAL_MS // 5 else "warning" if left_ms else "bad"
    lease = f"under lease {copy.lease}" if copy.lease is not None else "under its lease"
    hint = f"<title>may acknowledge for another {shown_span(left_ms)} {lease}</title>"
    drawn = f'<path class="hand {kind}" d="{arc}"/>' if left_ms else ""
    seconds = f'<text class="value" x="{x}" y="{y + 4}" text-anchor="middle">{left_ms / 1000:.0f} s</text>'
    return f'<g class="clock">{hint}<circle cx="{x}" cy="{y}" r="{_RADIUS}"/>{drawn}{seconds}</g>'


def _cut(text: str) -> str:
    return escape(text if len(text) <= _TEXT_MAX else f"{text[: _TEXT_MAX - 1]}…")
