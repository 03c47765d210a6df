"""Introduction: what a replica says first, number by number, until the master knows where it wants the log from.

    [PROVEN, four numbers: 32 bytes of proof] [NAMED or SILENT, broker id] position

RocketMQ's replicas say their position at once; ours say their name first, and prove who they are where that is wanted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyromq.wire.transfer import NAMED, PROOF_BYTES, PROVEN, REPORT_BYTES, SILENT, encode_report

_PROOF_NUMBERS: Final = PROOF_BYTES // REPORT_BYTES


@dataclass(slots=True)
class Introduction:
    """``hear`` every number until it is complete."""

    broker_id: int | None = None  # None: it has not said it
    is_copy: bool = False  # never to be counted
    proof: bytes = b""
    position: int = 0  # from there on it wants the log
    _proof_left: int = 0
    _is_naming: bool = False

    def hear(self, number: int) -> bool:
        """Whether it is complete now."""
        if self._proof_left:
            self._proof_left -= 1
            self.proof += encode_report(number)
        elif self._is_naming:
            self._is_naming, self.broker_id = False, number
        elif number == PROVEN and not self.proof:
            self._proof_left = _PROOF_NUMBERS
        elif number in (NAMED, SILENT) and self.broker_id is None:
            self._is_naming, self.is_copy = True, number == SILENT
        else:
            self.position = number
            return True
        return False
