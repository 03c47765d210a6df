"""What a statement gives."""

from __future__ import annotations

from typing import Any, NamedTuple


class Result(NamedTuple):
    rows: list[Any]
    changed: int  # how many
