"""Ledger: every acknowledged message, and where it is.

acknowledged = visible + delayed + prepared + ended (rolled back, called back, discarded) + lost
visible, in every group that subscribes = consumed + pending + retrying + dead + passed over + lost
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from pyromq.testing.observing.seen import SeenMessage


class MessagePlace(StrEnum):
    """Where an acknowledged message is."""

    VISIBLE = "visible"
    DELAYED = "delayed"
    PREPARED = "prepared"
    ENDED = "ended"
    LOST = "lost"


class DeliveryState(StrEnum):
    """What a group has done with a visible message."""

    CONSUMED = "consumed"
    PENDING = "pending"
    RETRYING = "retrying"
    DEAD = "dead"
    PASSED_OVER = "passed over"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Ledger:
    """``groups`` has for each group how many messages stand where; ``lost`` is empty when all is well."""

    acknowledged: int
    places: dict[MessagePlace, int]
    groups: dict[str, dict[DeliveryState, int]]
    lost: list[tuple[str, SeenMessage]] = field(default_factory=list)  # by group; "" for those that are nowhere

    def __str__(self) -> str:
        lines = [f"acknowledged {self.acknowledged} = {_sum_of(self.places)}"]
        lines += [f"group {name}: {_sum_of(standings)}" for name, standings in sorted(self.groups.items())]
        if self.lost:
            lines.append(f"{len(self.lost)} lost:")
            lines += [
                f"  {message!r} {f'by group {group}' if group else 'stored nowhere'}" for group, message in self.lost
            ]
        return "\n".join(lines)


def _sum_of(counts: dict[MessagePlace, int] | dict[DeliveryState, int]) -> str:
    return " + ".join(f"{count} {name}" for name, count in counts.items() if count) or "0"
