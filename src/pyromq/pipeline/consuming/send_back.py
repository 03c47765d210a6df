"""Send-back of rows that are not done, to the broker that has them.

    retry   36 CONSUMER_SEND_MSG_BACK: the broker delivers a copy again after the delay; if it refuses (the message has
            expired since), or takes no story of a failure (Apache's), a copy is sent to %RETRY%group
    dead    a send to %RETRY%group that has more attempts than it may have, which brokers put to %DLQ%group: unlike a
            send-back it carries properties, so the letter tells what happened; and it needs no topic to exist. A body
            that cannot be decompressed is sent as the broker has it

A row is sent back before its batch counts as done, and tried again for ``retryTimeout``. The requests are those of all
consumers: ``client.consumer.base.send_back``.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from pyromq.client.consumer.base.broker_calls import BrokerCalls
from pyromq.client.consumer.base.failure_recorder import code_version
from pyromq.client.consumer.base.send_back import BODY_FLAGS, SendBackCalls
from pyromq.client.consumer.rules.failure_capture import Mask, Raised, masked
from pyromq.client.consumer.rules.retry_copy import copy_level, copy_properties
from pyromq.client.core.client import Client
from pyromq.errors import BrokerError, MQError
from pyromq.model import property_names as names
from pyromq.model.failure import FACT_BYTES_MAX, printable
from pyromq.model.queue import QueueId
from pyromq.pipeline.consuming.rows import Judged, Record
from pyromq.pipeline.consuming.verdicts import STAGE_ATTEMPTS, Dead, Retry
from pyromq.pipeline.core.connections import Connected
from pyromq.pipeline.core.options import SourceOptions
from pyromq.pipeline.core.retry_window import RetryWindow
from pyromq.wire.codes import RequestCode
from pyromq.wire.headers.consumer import ViewMessageHeader
from pyromq.wire.message_id import Host, MalformedHostError, encode_offset_id
from pyromq.wire.record import decode_record

logger = logging.getLogger(__name__)

DLQ_ERROR: Final = names.DLQ_ERROR
DLQ_STAGE: Final = names.DLQ_STAGE
DLQ_BATCH: Final = "DLQ_BATCH"
DLQ_SOURCE: Final = "DLQ_SOURCE"
"""Properties of dead letters: why, where in the way of a row, in which batch, and from which offset it was read."""
_ERROR_CHARACTERS_MAX: Final = 1_000
_AT_A_TIME: Final = 256
_WITHOUT_MARKS: Final = str.maketrans({names.NAME_END: " ", names.ITEM_END: " "})


def decided(record: Record, verdict: Retry | Dead, attempts_max: int) -> Retry | Dead:
    """A row that was tried often enough is dead, with the last reason."""
    if isinstance(verdict, Retry) and record.delivery_attempt >= attempts_max:
        return Dead(verdict.reason or f"it was tried {record.delivery_attempt + 1} times", STAGE_ATTEMPTS)
    return verdict


@dataclass(frozen=True, slots=True)
class Telling:
    """What rows that are not done tell of it: ``mask`` gets the text of an error and returns what may be stored."""

    code_version: str = ""
    mask: Mask | None = None

    def masked(self, text: str) -> str:
        return masked(text, [self.mask]) if text and self.mask is not None else text

    def note(self, record: Record, verdict: Retry | Dead, now_ms: int) -> None:
        """Why the row is not done. Telling is never worth a row: what goes wrong here is logged."""
        try:
            raised = verdict.raised if isinstance(verdict, Retry) else None
            raised = raised or Raised(type(verdict).__name__, verdict.reason, "")
            failure = raised.failure([self.mask] if self.mask is not None else [])
            record.note_failure(
                msgspec.structs.replace(
                    failure,
                    version=printable(code_version(self.code_version), FACT_BYTES_MAX),
                    host=printable(socket.gethostname(), FACT_BYTES_MAX),
                    attempt=record.delivery_attempt + 1,
                    time_ms=now_ms,
                )
            )
        except Exception:
            logger.exception("failure not told, the row goes back without: id=%s", record.message_id)


def letter_properties(record: Record, dead: Dead, batch: str, stored_id: str = "") -> str:
    """Those of the message, and what happened to it; ``stored_id`` leads its broker to it."""
    reason = dead.reason.translate(_WITHOUT_MARKS).strip()[:_ERROR_CHARACTERS_MAX] or "no reason given"
    source = f"{record.stored_topic}/{record.broker}/{record.queue_id}/{record.queue_offset}"
    facts = {DLQ_ERROR: reason, DLQ_STAGE: dead.stage, DLQ_BATCH: batch, DLQ_SOURCE: source}
    return copy_properties(
        record.raw_properties,
        topic=record.stored_topic,
        message_id=stored_id or record.message_id,
        story=record.untold_story,
        more=facts,
    )


_TELLING: Final = Telling()


class RowSendBack:
    """For one task; ``batch`` names it in dead letters."""

    def __init__(
        self,
        connected: Connected,
        options: SourceOptions,
        group: str,
        attempts_max: int,
        batch: str,
        telling: Telling = _TELLING,
    ) -> None:
        self._connected = connected
        self._telling = telling
        self._options = options
        self._batch = batch
        self._client: Client = connected.client
        self._attempts_max = attempts_max
        self._group = self._client.wire_name(group)
        calls = BrokerCalls(self._client, self._group)
        self._calls = SendBackCalls(self._client, calls, self._group, attempts_max)
        self.retried = 0  # rows that come again
        self.dead = 0  # rows that are dead letters now

    def send_back(self, judged: Sequence[Judged]) -> None:
        """All of them are with their brokers when it returns. Raises SourceUnreachableError, BrokerError."""
        for start in range(0, len(judged), _AT_A_TIME):
            self._connected.call(self._send_back(judged[start : start + _AT_A_TIME]))

    async def _send_back(self, judged: Iterable[Judged]) -> None:
        limit = self._attempts_max
        work = []
        for record, verdict in judged:
            if verdict is not None:
                self._telling.note(record, verdict, self._client.clock.now_ms())
                shown = replace(verdict, reason=self._telling.masked(verdict.reason))
                work.append(self._surely(record, decided(record, shown, limit)))
        for outcome in await asyncio.gather(*work, return_exceptions=True):
            if outcome is not None:
                raise outcome

    async def _surely(self, record: Record, verdict: Retry | Dead) -> None:
        window: RetryWindow | None = None
        while True:
            try:
                await self._client.routes.get(
                    self._client.wire_name(record.stored_topic), timeout_ms=self._options.request_ms
                )
                if isinstance(verdict, Dead):
                    await self._send_dead_letter(record, verdict)
                    self.dead += 1
                else:
                    await self._retry(record, verdict)
                    self.retried += 1
                return
            except MQError as error:
                what = f"sending back {record.stored_topic}/{record.broker}/{record.queue_id}/{record.queue_offset}"
                window = window or RetryWindow(what, self._options.retry_ms, self._client.clock)
                pause_ms = window.failed(error)
                logger.info("row not sent back, trying again: error=%s", error)
                await asyncio.sleep(pause_ms / 1000)

    async def _retry(self, record: Record, verdict: Retry) -> None:
        if record.body is None:
            await self._calls.send_back(record, verdict.delay_level)
        elif await self._calls.takes_story(record):
            try:
                await self._calls.send_back(record, verdict.delay_level)
            except BrokerError as error:
                logger.info("not sent back, sending a copy: id=%s error=%s", record.message_id, error)
                await self._send_retry_copy(record, verdict)
        else:
            try:
                await self._send_retry_copy(record, verdict)
            except BrokerError as error:
                logger.info("copy not taken, sending back without the story: id=%s error=%s", record.message_id, error)
                await self._calls.send_back(record, verdict.delay_level)

    async def _send_retry_copy(self, record: Record, verdict: Retry) -> None:
        properties = copy_properties(
            record.raw_properties,
            topic=record.stored_topic,
            message_id=self._stored_id(record) or record.message_id,
            delay_level=copy_level(verdict.delay_level, record.delivery_attempt),
            story=record.untold_story,
        )
        await self._send_copy(record, properties, record.body, attempts_max=self._attempts_max)

    async def _send_dead_letter(self, record: Record, dead: Dead) -> None:
        body, sys_flag = (record.body, 0) if record.body is not None else await self._as_stored(record)
        properties = letter_properties(record, dead, self._batch, self._stored_id(record))
        await self._send_copy(record, properties, body, sys_flag, attempts_max=0)

    def _stored_id(self, record: Record) -> str:
        """What brokers call the origin of a copy; empty where the broker is known by a name."""
        address = self._client.brokers.address(record.broker) or ""
        try:
            return encode_offset_id(Host.parse(address), record.position)
        except MalformedHostError:
            return ""

    async def _as_stored(self, record: Record) -> tuple[bytes, int]:
        """A body that cannot be decompressed, as its broker has it, and the flag that says how it was compressed."""
        link, header = self._client.master_link(record.broker), ViewMessageHeader(position=record.position)
        response = await self._client.ask(link, RequestCode.VIEW_MESSAGE_BY_ID, header)
        found = decode_record(response.body)
        return found.body, found.sys_flag & BODY_FLAGS

    async def _send_copy(
        self, record: Record, properties: str, body: bytes, sys_flag: int = 0, *, attempts_max: int
    ) -> None:
        copy = self._calls.copy_of(record, properties, body, sys_flag)
        queue = QueueId(self._calls.retry_topic, record.broker, 0)
        await self._calls.send_copy(copy, queue, record.delivery_attempt, attempts_max)
