"""Authority: whether this broker may take sends, and say of stored messages that they are safe.

Without a failover agent it always may (``Unmanaged``). Under one it may while its lease lasts (``Leased``). A lease
ends at a moment of the machine's clock, which is read when an acknowledgement leaves, not when a timer fires: a process
that was stopped for longer than its lease finds it ended, whatever it was about to say.
"""

from __future__ import annotations

import logging
from typing import Final, Protocol

from pyromq.broker.base.lease import Lease
from pyromq.broker.base.refusals import RefusedError
from pyromq.wire.codes import ResponseCode

logger = logging.getLogger(__name__)

FOR_EVER_MS: Final = 1 << 53
_ENDED: Final = "this broker is not the master at the moment: its lease has ended; ask for the route again"
_UNKNOWN: Final = "the lease of this broker has ended before the message was safe: it may be stored, or not"


class Authority(Protocol):
    """The right of a broker to act as master."""

    def check_accept(self) -> None:
        """Raise RefusedError unless this broker may take a send, or change anything else, at this moment."""

    def may_acknowledge(self, end: int) -> bool:
        """Whether messages up to there may be acknowledged at this moment; if so, they count as acknowledged."""

    def wait_left_ms(self) -> int:
        """How much longer a request may wait here for anything; 0: the lease has ended."""

    def note_shown(self, end: int) -> None:
        """Consumers have seen the log up to there, which counts as acknowledged."""


class Unmanaged:
    """A broker without a failover agent is always allowed."""

    def check_accept(self) -> None:
        return

    def may_acknowledge(self, end: int) -> bool:
        return True

    def wait_left_ms(self) -> int:
        return FOR_EVER_MS

    def note_shown(self, end: int) -> None:
        return


class Leased:
    """A broker under a failover agent is allowed while its lease lasts."""

    def __init__(self, lease: Lease, *, promises: bool = True) -> None:
        """``promises``: it waits for replicas, so nobody takes over without what it acknowledges."""
        self._lease = lease
        self._promises = promises

    def check_accept(self) -> None:
        if not self._lease.is_open:
            raise not_master()

    def may_acknowledge(self, end: int) -> bool:
        if not self._lease.is_open:
            return False
        if end > self._lease.unpromised and self._promises and not self._promise():
            return False
        self.note_shown(end)
        return True

    def _promise(self) -> bool:
        """Before the first acknowledgement under a lease: no other log may take the place of this one unnoticed."""
        try:
            self._lease.promise()
        except OSError as error:
            if not self._lease.failing:
                logger.error("not acknowledged, the lease cannot be written: error=%s", error)
            self._lease.failing = f"the lease cannot be written: {error}"
            return False
        return self._lease.is_open  # the disk may have taken long

    def wait_left_ms(self) -> int:
        return int(self._lease.left_s * 1_000) + 1 if self._lease.is_open else 0

    def note_shown(self, end: int) -> None:
        self._lease.acknowledged = max(self._lease.acknowledged, end)


def not_master() -> RefusedError:
    """Error for a send that was not stored; clients may repeat it as often as they like."""
    return RefusedError(ResponseCode.SERVICE_NOT_AVAILABLE, _ENDED)


def outcome_unknown() -> RefusedError:
    """Error for a stored message that a failover may truncate; retrying can duplicate it."""
    return RefusedError(ResponseCode.SYSTEM_ERROR, _UNKNOWN)
