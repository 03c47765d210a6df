"""Fixtures of several test modules here; the store is there twice, in Python and in the compiled core."""

from __future__ import annotations

import pytest

from pyromq.testing import ManualClock
from tests.running.modes import pytest_itemcollected

__all__ = ["pytest_itemcollected"]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()
