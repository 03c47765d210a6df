"""Long responses, as tests read them."""

from __future__ import annotations

from typing import Any

from pyromq.broker.base import long_responses
from pyromq.broker.base.long_responses import Steps


def finished(steps: Steps) -> Any:
    return long_responses.finished(steps)
