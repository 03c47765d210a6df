"""Small real implementations for tests, ours and yours: a broker with a clock and faults, a disk that forgets."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyromq.testing.broker_clock import BrokerClock
    from pyromq.testing.faulty_disk import Crashed, CrashMode, FaultyDisk
    from pyromq.testing.loopback import LoopbackBroker, guarded_by
    from pyromq.testing.manual_clock import ManualClock
    from pyromq.testing.metrics_endpoint import metrics_of
    from pyromq.testing.observing.ledger import Ledger
    from pyromq.testing.observing.observed import GroupView
    from pyromq.testing.observing.seen import SeenMessage, SeenMessages
    from pyromq.testing.server_process import AsyncServerProcess, ServerProcess, ServerProcessError, free_port
    from pyromq.testing.traffic.fault_rules import FaultKind
    from pyromq.testing.traffic.faults import Faults
    from pyromq.testing.virtual_time import NotSettledError

_HOMES = {  # nothing is imported before it is wanted: pytest imports this package in every run
    "AsyncServerProcess": "server_process",
    "BrokerClock": "broker_clock",
    "CrashMode": "faulty_disk",
    "Crashed": "faulty_disk",
    "FaultKind": "traffic.fault_rules",
    "Faults": "traffic.faults",
    "FaultyDisk": "faulty_disk",
    "GroupView": "observing.observed",
    "Ledger": "observing.ledger",
    "LoopbackBroker": "loopback",
    "guarded_by": "loopback",
    "metrics_of": "metrics_endpoint",
    "ManualClock": "manual_clock",
    "NotSettledError": "virtual_time",
    "SeenMessage": "observing.seen",
    "SeenMessages": "observing.seen",
    "ServerProcess": "server_process",
    "ServerProcessError": "server_process",
    "free_port": "server_process",
}

__all__ = [
    "AsyncServerProcess",
    "BrokerClock",
    "CrashMode",
    "Crashed",
    "FaultKind",
    "Faults",
    "FaultyDisk",
    "GroupView",
    "Ledger",
    "LoopbackBroker",
    "ManualClock",
    "NotSettledError",
    "SeenMessage",
    "SeenMessages",
    "ServerProcess",
    "ServerProcessError",
    "free_port",
    "guarded_by",
    "metrics_of",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
