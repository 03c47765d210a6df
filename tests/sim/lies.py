"""Planted mistakes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def planted(name: str) -> Iterator[None]:
    yield
