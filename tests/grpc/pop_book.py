"""What popping consumers were told: acknowledgements that were confirmed, and what came again all the same."""

from __future__ import annotations

from typing import Final

_ROUNDED_S: Final = 0.001  # times of brokers are whole milliseconds

Place = tuple[str, str, int, int]
"""Topic, broker, queue and offset: a message. A send that was repeated may be there twice, with one body."""


class PopBook:
    """By group and place. Times are seconds of one clock, that of brokers and consumers."""

    def __init__(self) -> None:
        self.acked: dict[tuple[str, Place], float] = {}  # since when
        self.seen_again: list[str] = []

    def acknowledged(self, group: str, place: Place, now_s: float) -> None:
        self.acked.setdefault((group, place), now_s)

    def handed_out(self, group: str, place: Place, at_s: float) -> None:
        """``at_s``: when the broker decided so. What it had sent before counts as seen before."""
        acked_s = self.acked.get((group, place))
        if acked_s is not None and at_s > acked_s + _ROUNDED_S:
            self.seen_again.append(f"{group} acknowledged {place} at {acked_s:.3f} s, and got it again at {at_s:.3f} s")
