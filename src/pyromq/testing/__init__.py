"""Small real implementations for tests, ours and yours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyromq.testing.faulty_disk import Crashed, CrashMode, FaultyDisk
from pyromq.testing.manual_clock import ManualClock

if TYPE_CHECKING:
    from pyromq.testing.loopback import LoopbackBroker
    from pyromq.testing.virtual_time import NotSettledError

__all__ = ["CrashMode", "Crashed", "FaultyDisk", "LoopbackBroker", "ManualClock", "NotSettledError"]


def __getattr__(name: str) -> Any:
    """A broker is only imported by those who want one."""
    if name == "LoopbackBroker":
        from pyromq.testing.loopback import LoopbackBroker

        return LoopbackBroker
    if name == "NotSettledError":
        from pyromq.testing.virtual_time import NotSettledError

        return NotSettledError
    raise AttributeError(name)
