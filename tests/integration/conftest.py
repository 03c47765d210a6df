"""Fixtures of several test modules here."""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator

import pytest

from tests.integration.both_loops import run

__all__ = ["run"]


class _Stalls(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@pytest.fixture(autouse=True)
def no_stall_of_the_loop() -> Iterator[None]:
    """No request and no periodic work of a server in this process keeps its loop from others for 100 ms.

    Ten thousand collected tests make a garbage collection of this process take longer: none runs meanwhile.
    """
    stalls, logger = _Stalls(), logging.getLogger("pyromq.net.stalls")
    logger.addHandler(stalls)
    gc.disable()
    yield
    gc.enable()
    logger.removeHandler(stalls)
    assert not stalls.lines
