"""What a handler may say of a row."""

from __future__ import annotations

import pytest

from pyromq.errors import ConfigError
from pyromq.pipeline.consuming.verdicts import Retry, verdict_of
from pyromq.pipeline.core.errors import WrongVerdictError


def test_verdicts_are_checked() -> None:
    with pytest.raises(ConfigError, match="numbers from 1 on"):
        Retry(delay_level=-1)
    with pytest.raises(WrongVerdictError, match="Retry or Dead, not bool"):
        verdict_of(False)
