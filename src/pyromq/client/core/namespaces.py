"""Namespaces: ``<namespace>%<name>`` on the wire, the bare name for the application.

Prefixes of derived topics stay outermost (``%RETRY%<namespace>%<group>``); names of the system have no namespace.
"""

from __future__ import annotations

from typing import Final

from pyromq.model.names import (
    DEAD_LETTER_PREFIX,
    DEFAULT_TOPIC,
    HALF_TOPIC,
    OP_HALF_TOPIC,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
)

_SYSTEM_NAMES: Final = frozenset(
    (
        *(DEFAULT_TOPIC, HALF_TOPIC, OP_HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC, "BenchmarkTest", "SELF_TEST_TOPIC"),
        *("RMQ_SYS_TRACE_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC", "OFFSET_MOVED_EVENT", "CHECKPOINT_TOPIC"),
        *("TOOLS_CONSUMER", "CLIENT_INNER_PRODUCER"),
    )
)
_SYSTEM_PREFIXES: Final = ("rmq_sys_", "RMQ_SYS_", "CID_RMQ_SYS_")


def wrap(namespace: str, name: str) -> str:
    """The name as servers know it; a name that has the namespace already keeps it."""
    if not namespace or name in _SYSTEM_NAMES or name.startswith(_SYSTEM_PREFIXES):
        return name
    prefix, bare = _derived(name)
    return name if bare.startswith(f"{namespace}%") else f"{prefix}{namespace}%{bare}"


def unwrap(namespace: str, name: str) -> str:
    """The name as the application knows it."""
    if not namespace:
        return name
    prefix, bare = _derived(name)
    return prefix + bare.removeprefix(f"{namespace}%")


def _derived(name: str) -> tuple[str, str]:
    for prefix in (RETRY_PREFIX, DEAD_LETTER_PREFIX):
        if name.startswith(prefix):
            return prefix, name.removeprefix(prefix)
    return "", name
