"""Pipelined pulls of workers: ranges of offsets, pulled on the loop's thread while the task decodes what came before.

    gather ──▶ several pulls at once, at offsets guessed from the last responses ──▶ 2 MiB and more ──▶ decode

A response holds as many messages as the broker likes to send; when it is fewer than guessed, the pulls behind it missed
and are asked again. With a filter the next offset cannot be guessed, so pulls follow each other.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from pyromq.client.consumer.rules.subscription import parse_tags
from pyromq.client.core.client import Client
from pyromq.client.core.errors import error_of
from pyromq.clock import Clock, SystemClock
from pyromq.errors import BrokerError, ConnectFailedError, MQError
from pyromq.model.names import RETRY_PREFIX
from pyromq.model.queue import QueueId
from pyromq.model.route import MASTER_ID
from pyromq.model.system_names import TOOL_GROUP
from pyromq.pipeline.arrow.decode import WantedRows, decode_in_parts
from pyromq.pipeline.core.connections import Connected
from pyromq.pipeline.core.errors import DataLossError
from pyromq.pipeline.core.offsets import OffsetRange
from pyromq.pipeline.core.options import SourceOptions
from pyromq.pipeline.core.retry_window import RetryWindow
from pyromq.pipeline.reading.plan import shown
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.flags import PullFlag
from pyromq.wire.headers.consumer import PullHeader, PullResponseHeader
from pyromq.wire.json.heartbeat import SQL_EXPRESSION, TAG_EXPRESSION
from pyromq.wire.received import Received

logger = logging.getLogger(__name__)

NO_GROUP: Final = TOOL_GROUP  # the group of readers that are in none
PULLS_MAX: Final = 64
PULL_BYTES: Final = 1 << 20  # our brokers send more than 32 messages a response to clients that name a size
_FLAGS: Final = int(PullFlag.SUBSCRIPTION)
_FOUND, _NO_MATCH = int(ResponseCode.SUCCESS), int(ResponseCode.PULL_RETRY_IMMEDIATELY)
_NOTHING, _MOVED = int(ResponseCode.PULL_NOT_FOUND), int(ResponseCode.PULL_OFFSET_MOVED)


@dataclass(frozen=True, slots=True)
class Filter:
    """What of a queue is wanted, in the broker's words, and what must be compared again."""

    expression: str = "*"
    kind: str = TAG_EXPRESSION
    tags: frozenset[str] = frozenset()

    @property
    def is_open(self) -> bool:
        return self.kind == TAG_EXPRESSION and not self.tags


def filter_for(options: SourceOptions, topic: str) -> Filter:
    """Messages that come again were wanted before: a retry topic is read whole."""
    if topic.startswith(RETRY_PREFIX):
        return Filter()
    if options.sql:
        return Filter(options.sql, SQL_EXPRESSION)
    tags = parse_tags(options.tags)
    return Filter(options.tags, tags=tags) if tags else Filter()


class RangeReader:
    """Reads one range; on the client's loop."""

    def __init__(
        self,
        client: Client,
        options: SourceOptions,
        wanted: OffsetRange,
        *,
        clock: Clock | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._client = client
        self._options = options
        self._wanted = wanted
        self._sleep = sleep
        self._queue = wanted.queue
        self.offset = wanted.start  # the next to read
        self.filter = filter_for(options, wanted.queue.topic)
        self._group = client.wire_name(options.group) if options.group else NO_GROUP
        self._broker_id = MASTER_ID  # of the broker to ask next, as responses suggest it
        self._is_master = True  # whether that one was asked last, and no replica in its place
        self._stride = 0  # messages of a response, 0 when that is not known
        self._response_bytes = 1  # of a full response
        what = f"reading {shown(wanted.queue)} at offset {wanted.start}"
        self._retry_window = RetryWindow(what, options.retry_ms, clock or SystemClock())

    @property
    def is_done(self) -> bool:
        return self.offset >= self._wanted.end

    async def gather(self) -> list[bytes]:
        """Stored bytes of the next messages: about as many as asked for, none at the end of the range.

        Raises DataLossError, SourceUnreachableError, and BrokerError for what no retry helps against.
        """
        parts: list[bytes] = []
        size, first = 0, self.offset
        while not self.is_done and size < self._options.gather_bytes:
            if self.offset - first >= self._options.batch_rows and parts:
                break
            for part in await self._some(self._options.gather_bytes - size):
                parts.append(part)
                size += len(part)
        return parts

    # --- pulls ---

    async def _some(self, bytes_wanted: int) -> list[bytes]:
        """What one round of pulls brings, in order; it may be nothing."""
        try:
            asked = self._guesses(bytes_wanted)
            connection = await self._connection()
            responses = [self._pull(connection, offset, count) for offset, count in asked]
            outcomes = await asyncio.gather(*responses, return_exceptions=True)
            return self._accepted(asked, outcomes)
        except MQError as error:
            if isinstance(error, DataLossError):
                raise
            await self._wait(error)
            return []

    def _guesses(self, bytes_wanted: int) -> list[tuple[int, int]]:
        """Offset and number of messages of each pull of a round; the last may bring more than guessed."""
        left, most = self._wanted.end - self.offset, self._options.pull_count
        if not self._stride or not self.filter.is_open:
            return [(self.offset, min(most, left))]
        pulls = max(1, min(PULLS_MAX, -(-bytes_wanted // self._response_bytes), -(-left // self._stride)))
        places = [self.offset + number * self._stride for number in range(pulls)]
        return [(place, self._stride) for place in places[:-1]] + [
            (places[-1], min(most, self._wanted.end - places[-1]))
        ]

    async def _connection(self) -> Any:
        client, queue = self._client, self._queue
        await client.routes.get(queue.topic, timeout_ms=self._options.request_ms)
        master = client.brokers.address(queue.broker, MASTER_ID)
        address = client.brokers.address(queue.broker, self._broker_id) or client.brokers.readable_address(queue.broker)
        self._is_master = address == master
        if address is None:
            raise ConnectFailedError(f"no address of broker {queue.broker} is known")
        link = client.brokers.link(address)
        return link.ready or await link.connection(timeout_ms=self._options.request_ms)

    def _pull(self, connection: Any, offset: int, count: int) -> asyncio.Future[Received[Any]]:
        header = PullHeader(
            consumer_group=self._group,
            topic=self._queue.topic,
            queue_id=self._queue.number,
            queue_offset=offset,
            max_msg_nums=count,
            sys_flag=_FLAGS,
            commit_offset=0,
            suspend_timeout_millis=0,
            subscription=self.filter.expression,
            sub_version=0,
            expression_type=self.filter.kind,
            max_msg_bytes=PULL_BYTES,
        )
        signed = self._client.signer.signed(header)
        future: asyncio.Future[Received[Any]] = connection.request_nowait(
            RequestCode.PULL_MESSAGE, signed, timeout_ms=self._options.request_ms
        )
        return future

    # --- responses ---

    def _accepted(
        self, asked: Sequence[tuple[int, int]], outcomes: Sequence[Received[Any] | BaseException]
    ) -> list[bytes]:
        """The responses that continue each other from our offset on. Raises the failure of the first, if it failed."""
        parts: list[bytes] = []
        for (offset, count), outcome in zip(asked, outcomes, strict=True):
            if offset != self.offset:
                break
            if isinstance(outcome, BaseException):
                if not parts:
                    raise outcome
                break
            if part := self._taken(outcome, count):
                parts.append(part)
        return parts

    def _taken(self, response: Received[Any], count: int) -> bytes:
        """The messages of one response; moves on. Raises BrokerError, DataLossError."""
        if response.code not in (_FOUND, _NO_MATCH, _NOTHING, _MOVED):
            raise error_of(response, topic=self._queue.topic)
        header = response.header_as(PullResponseHeader)
        suggested, self._broker_id = header.suggest_which_broker_id, MASTER_ID
        if response.code in (_NOTHING, _MOVED):
            self._pass_over(header)
            return b""
        if suggested > MASTER_ID:
            self._broker_id = suggested
        moved = header.next_begin_offset - self.offset
        if moved <= 0:
            text = f"the response to a pull at offset {self.offset} points back to {header.next_begin_offset}"
            raise BrokerError(code=response.code, remark=text)
        self._retry_window.succeeded()
        self.offset = header.next_begin_offset
        if response.code == _NO_MATCH:
            return b""
        body = response.body
        if moved != self._stride and (not self.is_done or not self._stride):
            self._stride = min(moved, self._options.pull_count)
        if moved >= self._stride:
            self._response_bytes = max(1, len(body))
        return bytes(body)

    def _pass_over(self, header: PullResponseHeader) -> None:
        """What the plan says is not there. Raises DataLossError, or BrokerError for what may still come."""
        is_held = header.min_offset <= self.offset < header.max_offset
        if is_held or not self._is_master:  # replicas may be behind
            text = f"the broker finds no message at offset {self.offset} of [{header.min_offset}, {header.max_offset})"
            raise BrokerError(code=ResponseCode.PULL_NOT_FOUND, remark=text)
        queue, end = shown(self._queue), self._wanted.end
        if self.offset < header.min_offset:
            low = min(header.min_offset, end)
            loss = f"{queue} begins at {header.min_offset} now, offsets {self.offset} to {low} are gone"
        else:
            low = end
            loss = f"{queue} ends at {header.max_offset} now, offsets {self.offset} to {end} are gone"
        if self._options.fail_on_data_loss:
            raise DataLossError([loss])
        logger.warning("messages skipped: %s", loss)
        self.offset = low

    async def _wait(self, error: MQError) -> None:
        """Before the next attempt; the queue may have moved meanwhile. Raises as ``RetryWindow.failed`` does."""
        wait_ms = self._retry_window.failed(error)
        logger.info("pull failed: queue=%s offset=%d error=%s", self._queue, self.offset, error)
        self._broker_id = MASTER_ID
        self._client.routes.refresh_soon(self._queue.topic)
        await self._sleep(wait_ms / 1000)


@dataclass(frozen=True, slots=True)
class Gathered:
    """Stored bytes of one range, in order."""

    wanted: OffsetRange
    tags: frozenset[str]
    parts: list[bytes]


class RangesReader:
    """Reads several ranges one after the other."""

    def __init__(self, client: Client, options: SourceOptions, ranges: Sequence[OffsetRange]) -> None:
        self._client = client
        self._options = options
        self._left = list(ranges)  # not read to their end yet
        self._reader: RangeReader | None = None  # of the first of them

    async def gather(self) -> Gathered | None:
        """None after the last. Raises as ``RangeReader.gather`` does."""
        while self._left:
            wanted = self._left[0]
            if self._reader is None:
                self._reader = RangeReader(self._client, self._options, wanted)
            reader = self._reader
            parts = await reader.gather()
            if reader.is_done:
                self._left.pop(0)
                self._reader = None
            if parts:
                return Gathered(wanted, reader.filter.tags, parts)
        return None


def read_ranges(
    connected: Connected, options: SourceOptions, ranges: Sequence[OffsetRange], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """The rows of these ranges, in order within each; always the same for the same ranges."""
    client = connected.client
    reader = RangesReader(client, options, ranges)
    pending = connected.begin(reader.gather())
    while (gathered := pending.wait()) is not None:
        pending = connected.begin(reader.gather())
        wanted, queue = gathered.wanted, gathered.wanted.queue
        named = QueueId(client.plain_name(queue.topic), queue.broker, queue.number)
        rows = WantedRows(wanted.start, wanted.end, gathered.tags)
        for batch in decode_in_parts(b"".join(gathered.parts), named, schema, rows):
            for start in range(0, batch.num_rows, options.batch_rows):
                yield batch.slice(start, options.batch_rows)
