"""Fixtures of several test modules here."""

from __future__ import annotations

import pytest

from pyromq.testing import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()
