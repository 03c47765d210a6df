"""Names of numbers in the history: who samples a number and who shows it say the same name."""

from __future__ import annotations

from typing import Final

CLUSTER_IN: Final = "cluster in"
CLUSTER_OUT: Final = "cluster out"


def broker_number(key: str, what: str) -> str:
    """``what`` of a broker process (``broker-a/0``): ``in`` and ``out`` in messages a second, ``free`` and
    ``total`` bytes of its disk.
    """
    return f"broker {what} {key}"


def group_lag(group: str) -> str:
    """Messages that a group is behind."""
    return f"lag {group}"
