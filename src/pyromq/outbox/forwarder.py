"""The forwarder: sends kept messages in the background, lane by lane, the oldest of each first.

lease? ──no──▶ look again after poll_ms        (another process forwards)
  │yes
  ▼
lanes with waiting messages ──▶ of each: oldest rows ──▶ send one after the other ──▶ delete their rows
                                    │ a broker may take it later: the lane waits, the others go on
                                    └ none ever will: the row says why and stays, those behind it go on
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable
from typing import Any, Final

from pyromq.client.core.retry_advice import may_retry_later
from pyromq.clock import Clock
from pyromq.errors import ClientClosedError, MQError, NoPermissionError, NoRouteError, SendFailedError
from pyromq.model.message import UNSURE_STATUSES, Message, SendReceipt
from pyromq.outbox.kept import KeptMessages
from pyromq.waiting import set_within

logger = logging.getLogger(__name__)

POLL_MS: Final = 1_000
LEASE_MS: Final = 60_000
_LANES_MAX: Final = 10_000  # that are known at a time
_LANES_AT_ONCE: Final = 8
_PAUSE_MS: Final = 500
_PAUSE_MS_MAX: Final = 30_000
_CLOSE_S: Final = 10.0

Send = Callable[[Message], Awaitable[Any]]


def may_be_taken_later(error: MQError) -> bool:
    """Whether a message is worth keeping: brokers, name servers and the network come back, a refusal stays one."""
    if isinstance(error, ClientClosedError):
        return False
    if isinstance(error, NoRouteError):  # the name server forgets topics whose brokers are down
        return True
    if isinstance(error, SendFailedError):
        return bool(error.attempts) and may_be_taken_later(_cause(error))
    return may_retry_later(error)


def _is_denied(error: MQError) -> bool:
    """Whether the sender lacks a right at this moment: it may be given, and a broker without its users gets them."""
    return isinstance(_cause(error), NoPermissionError)


def _cause(error: MQError) -> MQError:
    """What the last attempt of a send failed with, if there was one."""
    return error.attempts[-1].error if isinstance(error, SendFailedError) and error.attempts else error


class Forwarder:
    """``send(message)`` is the producer's. ``forwarded`` and ``refused`` count what became of messages here."""

    def __init__(self, kept: KeptMessages, send: Send, clock: Clock, *, poll_ms: int, lease_ms: int) -> None:
        self._kept = kept
        self._send = send
        self._clock = clock
        self._poll_ms = poll_ms
        self._lease_ms = lease_ms
        self._holder = uuid.uuid4().hex
        self._renewed_ms: int | None = None  # None: not ours
        self._not_before: dict[str, tuple[int, int]] = {}  # lane → when it is tried again, and the pause after that
        self._wake = asyncio.Event()
        self._round_over = asyncio.Event()
        self._is_closing = False
        self._task: asyncio.Task[None] | None = None
        self.forwarded = 0
        self.refused = 0

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="forward")

    def wake(self) -> None:
        """There is something new; on the loop."""
        self._wake.set()

    def retry_now(self) -> None:
        """Lanes that wait after a failure do not wait any longer; on the loop."""
        self._not_before = {lane: (0, pause_ms) for lane, (_, pause_ms) in self._not_before.items()}
        self._wake.set()

    async def progress(self, timeout_ms: int) -> None:
        """Waits for the end of a round."""
        self._round_over.clear()
        await set_within(self._round_over, timeout_ms / 1000)

    async def close(self) -> None:
        """Finishes the message that is on its way, deletes the rows of those that were sent, gives the lease back."""
        self._is_closing = True
        self._wake.set()
        if self._task is None:
            return
        await asyncio.wait([self._task], timeout=_CLOSE_S)
        if not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task])
        if self._renewed_ms is not None:
            try:
                await asyncio.to_thread(self._kept.give_lease_back, self._holder)
            except Exception as error:  # any driver's: the lease runs out by itself
                logger.warning("lease of the outbox not given back, it runs out: error=%r", error)

    async def _run(self) -> None:
        while not self._is_closing:
            self._wake.clear()
            try:
                pause_ms = await self._round()
            except ClientClosedError:
                return
            except Exception as error:  # any driver's: the database may come back
                logger.warning("outbox not readable, trying again: error=%r", error)
                pause_ms = self._poll_ms
            self._round_over.set()
            if pause_ms > 0 and not self._is_closing:
                await set_within(self._wake, pause_ms / 1000)

    async def _round(self) -> int:
        """Milliseconds until the next one."""
        if not await self._has_lease():
            return self._poll_ms
        lanes = await asyncio.to_thread(self._kept.lanes, _LANES_MAX)
        self._not_before = {lane: pause for lane, pause in self._not_before.items() if lane in lanes}
        now_ms = self._clock.monotonic_ms()
        ready = [lane for lane in lanes if self._not_before.get(lane, (0, 0))[0] <= now_ms][:_LANES_AT_ONCE]
        if not ready:
            waits = [at_ms - now_ms for at_ms, _ in self._not_before.values()]
            return max(1, min([self._poll_ms, *waits]))
        await asyncio.gather(*map(self._forward_lane, ready))
        return 0

    async def _has_lease(self) -> bool:
        now_ms = self._clock.monotonic_ms()
        if self._renewed_ms is not None and now_ms - self._renewed_ms < self._lease_ms // 4:
            return True
        is_ours = await asyncio.to_thread(self._kept.take_lease, self._holder, self._lease_ms)
        self._renewed_ms = now_ms if is_ours else None
        return is_ours

    async def _forward_lane(self, lane: str) -> None:
        sent: list[str] = []
        try:
            for row in await asyncio.to_thread(self._kept.oldest, lane):
                if self._is_closing or not await self._has_lease():
                    return
                if row.message is None:
                    await self._refuse(row.id, lane, row.refused)
                    continue
                try:
                    receipt = await self._send(row.message)
                except MQError as error:
                    if isinstance(error, ClientClosedError):
                        raise
                    if may_be_taken_later(error) or _is_denied(error):
                        self._hold(lane, error)
                        return
                    await self._refuse(row.id, lane, str(error))
                else:
                    if isinstance(receipt, SendReceipt) and receipt.status in UNSURE_STATUSES:
                        self._hold(lane, receipt.status.value)
                        return
                    sent.append(row.id)
                    self.forwarded += 1
            self._not_before.pop(lane, None)
        finally:
            if sent:
                await asyncio.shield(asyncio.to_thread(self._kept.forget, sent))

    def _hold(self, lane: str, error: MQError | str) -> None:
        pause_ms = min(self._not_before.get(lane, (0, _PAUSE_MS // 2))[1] * 2, _PAUSE_MS_MAX)
        self._not_before[lane] = (self._clock.monotonic_ms() + pause_ms, pause_ms)
        topic = lane.partition("/")[0]
        logger.warning("kept messages wait: topic=%s next_try_ms=%d error=%s", topic, pause_ms, error)

    async def _refuse(self, row_id: str, lane: str, reason: str) -> None:
        self.refused += 1
        facts = (lane.partition("/")[0], row_id, reason)
        logger.error("kept message refused, it stays in the outbox: topic=%s id=%s reason=%s", *facts)
        await asyncio.to_thread(self._kept.refuse, row_id, reason)
