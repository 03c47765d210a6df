"""One queue after the other: messages of a queue are sent to a queue of the other cluster, in order, each once.

    read ──▶ send, one request at a time ──▶ confirmed ──▶ the next

A request that may have arrived is looked for before it is sent again, so a broker that was away, or a mirror that was
killed, costs no message and makes no second copy. Left is one moment: a request of a mirror that was killed, or cut
off, that its broker stores only after the next one has looked. Its messages are there twice then, under the same ids;
the mirror notices, since its own copies did not get the offsets that it expected, and counts them as ``repeated``.

A copy that its broker stored without its replicas (FLUSH_SLAVE_TIMEOUT) or its disk may be gone with the next master.
It counts when readers see it at its place. A broker that hides it from them may still show it, so it is waited for as
long as that broker is there; from another one, or one that was away, it is missing for good and is sent again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from pyromq.client.core.client import Client
from pyromq.client.core.received_message import split_messages
from pyromq.client.producer.raw_send import send_raw
from pyromq.errors import BrokerError, ConnectFailedError, MQError, TransportError
from pyromq.model.names import RETRY_PREFIX
from pyromq.model.queue import QueueId
from pyromq.pipeline.core.offsets import OffsetRange
from pyromq.pipeline.core.options import SourceOptions
from pyromq.pipeline.core.retry_window import RetryWindow
from pyromq.pipeline.mirroring.errors import MirrorConflictError
from pyromq.pipeline.mirroring.marks import MirroredFrom
from pyromq.pipeline.mirroring.packing import CopyRequest, packed
from pyromq.pipeline.mirroring.target import Copy, TargetQueue
from pyromq.pipeline.reading.plan import shown
from pyromq.pipeline.reading.pulls import RangeReader
from pyromq.wire.codes import ResponseCode
from pyromq.wire.headers.producer import SendResponseHeader
from pyromq.wire.send_statuses import UNSURE_CODES

logger = logging.getLogger(__name__)

PRODUCER: Final = "PYROMQ_MIRROR"
SETTLE_S: Final = 0.5  # before a request is looked for that may be on its way


class UnsureCopyError(BrokerError):
    """Copies from ``offset`` on are stored, but the next master may lack them; ``taken_by`` is who has them."""

    def __init__(self, code: int, offset: int, taken_by: object) -> None:
        super().__init__(code=code, remark="stored, but the next master may lack it")
        self.offset = offset
        self.taken_by = taken_by


class QueueCopier:
    """Copies one queue; ``next`` is the offset to read next, ``newest`` the last copy."""

    def __init__(
        self,
        source: tuple[Client, SourceOptions, QueueId],
        target: tuple[Client, SourceOptions, TargetQueue],
        *,
        start: int,
        newest: Copy | None,
        on_step: Callable[[str], None] = lambda step: None,
    ) -> None:
        """Both sides are a client, its options, and a queue; ``on_step`` hears of each step."""
        self._client, self._options, self.queue = source
        self._to_client, self._to_options, self.target = target
        self.next = start
        self.newest = newest
        self._expected: int | None = None  # the offset that the next copy gets
        self._has_sent = False
        self._on_step = on_step
        self.copied = self.repeated = 0

    async def copy(self, end: int) -> None:
        """Copy the messages up to ``end``. Raises DataLossError, SourceUnreachableError, MirrorConflictError, and
        BrokerError for what no retry helps against."""
        reader = RangeReader(self._client, self._options, OffsetRange(self.queue, self.next, end))
        is_retry = self.queue.topic.startswith(RETRY_PREFIX)
        while not reader.is_done:
            parts = await reader.gather()
            self._on_step("read")
            found = split_messages(b"".join(parts), self.queue.broker)
            wanted = (each for each in found if self.next <= each.offset < end)
            for request in packed(wanted, self.queue, self.target.queue.topic, is_retry=is_retry):
                await self._surely(request)
            self.next = max(self.next, reader.offset)

    async def _surely(self, request: CopyRequest) -> None:
        window = RetryWindow(f"copying {shown(self.queue)}", self._to_options.retry_ms, self._to_client.clock)
        while True:
            try:
                if self._expected is None:
                    self._expected = (await self.target.held()).end
                self._on_step("sending")
                offset = await self._send(request)
                self._on_step("sent")
                await self._check_place(offset)
                self._note(request, offset)
                return
            except MQError as error:
                pause_ms, failure = window.failed(error), error
                logger.info("copies not sent, trying again: queue=%s error=%s", self.queue, error)
                self._to_client.routes.refresh_soon(self.target.queue.topic)
                await asyncio.sleep(max(pause_ms / 1000, SETTLE_S if _may_have_arrived(error) else 0))
            if (stored := await self._found(request, window, failure)) is not None:
                self._note(request, stored)
                return

    async def _send(self, request: CopyRequest) -> int:
        more = {"j": str(request.attempts)} if request.attempts else {}
        link = self._to_client.master_link(self.target.queue.broker)
        response = await send_raw(
            self._to_client, request.message, self.target.queue, group=PRODUCER, more=more, link=link,
            timeout_ms=self._to_options.request_ms,
        )  # fmt: skip
        offset = response.header_as(SendResponseHeader).queue_offset
        if response.code in UNSURE_CODES:
            raise UnsureCopyError(response.code, offset, link.ready)
        return offset

    def _is_with(self, unsure: UnsureCopyError) -> bool:
        """Whether who stored it is master still, and was not away. Raises ConnectFailedError where nobody is."""
        return self._to_client.master_link(self.target.queue.broker).ready is unsure.taken_by

    async def _found(self, request: CopyRequest, window: RetryWindow, failure: MQError) -> int | None:
        """Where the first copy of a request stands that was sent in vain, as it seemed. Raises as ``copy`` does."""
        while True:
            try:
                hidden = failure if isinstance(failure, UnsureCopyError) and self._is_with(failure) else None
                held = await self.target.held()
                start = max(held.first, min(self._expected if self._expected is not None else held.end, held.end))
                async for copy in self.target.copies(start, held.end):
                    if copy.source.is_of(self.queue) and copy.source.offset == request.first:
                        return copy.offset
                if hidden is None or held.end > hidden.offset:
                    return None
                raise hidden  # its broker may show it yet
            except MQError as error:
                self._to_client.routes.refresh_soon(self.target.queue.topic)
                await asyncio.sleep(window.failed(error) / 1000)

    async def _check_place(self, offset: int) -> None:
        """Look at what came between the last copy and this one. Raises MirrorConflictError."""
        expected = self._expected if self._expected is not None else offset
        if offset > expected:
            between = [copy async for copy in self.target.copies(expected, offset) if copy.source.is_of(self.queue)]
            self.repeated += len(between)
            if between and self._has_sent:
                raise MirrorConflictError(f"another mirror copies {shown(self.queue)} to the same topic: stop one")
            if between:
                logger.warning("a mirror before this one sent copies late: queue=%s count=%d", self.queue, len(between))

    def _note(self, request: CopyRequest, offset: int) -> None:
        last = MirroredFrom(self.queue.broker, self.queue.number, request.last)
        self.newest = Copy(offset + request.count - 1, last)
        self._expected = offset + request.count
        self._has_sent = True
        self.next = request.last + 1
        self.copied += request.count


def _may_have_arrived(error: MQError) -> bool:
    if isinstance(error, BrokerError):
        return error.code == ResponseCode.SYSTEM_ERROR
    return isinstance(error, TransportError) and not isinstance(error, ConnectFailedError)
