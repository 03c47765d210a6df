"""Send-back of rows that are not done: the carrier whose copies go to the broker of the row.

    Retry   delivered again after the delay
    Dead    a dead letter that says why, in which batch, and from which offset the row was read; a body that cannot be
            decompressed is sent as the broker has it

``client.consumer.rules.send_back_plan`` has the steps, for rows as for messages of consumers. A row is sent back before
its batch counts as done, and tried again for ``retryTimeout``.
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
from pyromq.client.consumer.base.send_back import BODY_FLAGS, Content, SendBackCarrier
from pyromq.client.consumer.rules.failure_capture import Mask, Raised, masked
from pyromq.client.consumer.rules.send_back_plan import Fate, Step, letter_facts
from pyromq.client.core.client import Client
from pyromq.client.producer.outgoing import OutgoingMessage
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
_AT_A_TIME: Final = 256


def decided(record: Record, verdict: Retry | Dead, attempts_max: int) -> Retry | Dead:
    """A row that was tried often enough is dead, with the last reason."""
    if isinstance(verdict, Retry) and record.delivery_attempt >= attempts_max:
        return Dead(verdict.reason or f"it was tried {record.delivery_attempt + 1} times", STAGE_ATTEMPTS)
    return verdict


def _source_of(record: Record) -> str:
    return f"{record.stored_topic}/{record.broker}/{record.queue_id}/{record.queue_offset}"


def fate_of(record: Record, verdict: Retry | Dead, batch: str) -> Fate:
    """What the policy of all consumers needs to know; a dead letter says in which batch and where it was read."""
    if isinstance(verdict, Retry):
        return Fate(verdict.delay_level)
    return Fate(facts=letter_facts(verdict.reason, verdict.stage, {DLQ_BATCH: batch, DLQ_SOURCE: _source_of(record)}))


@dataclass(frozen=True, slots=True)
class Telling:
    """What rows that are not done say about it: ``mask`` gets the text of an error and returns what may be stored."""

    code_version: str = ""
    mask: Mask | None = None
    traceback_bytes: int = 0

    def masked(self, text: str) -> str:
        return masked(text, [self.mask]) if text and self.mask is not None else text

    def note(self, record: Record, verdict: Retry | Dead, now_ms: int) -> None:
        """Why the row is not done. Telling is never worth a row: what goes wrong here is logged."""
        try:
            raised = verdict.raised if isinstance(verdict, Retry) else None
            raised = raised or Raised(type(verdict).__name__, verdict.reason, "")
            failure = raised.failure([self.mask] if self.mask is not None else [], self.traceback_bytes)
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


_REPORTING: Final = Telling()


class RowSendBack(SendBackCarrier[Record]):
    """For one task; ``batch`` names it in dead letters. Copies go to the broker of the row."""

    next_step_after = BrokerError  # without a response the same step is repeated, within ``retryTimeout``

    def __init__(
        self,
        connected: Connected,
        options: SourceOptions,
        group: str,
        attempts_max: int,
        batch: str,
        telling: Telling = _REPORTING,
    ) -> None:
        client: Client = connected.client
        name = client.wire_name(group)
        super().__init__(client, BrokerCalls(client, name), name, attempts_max)
        self._connected = connected
        self._reporting = telling
        self._options = options
        self._batch = batch
        self._limit = attempts_max
        self.retried = 0  # rows that come again
        self.dead = 0  # rows that are dead letters now

    def send_back(self, judged: Sequence[Judged]) -> None:
        """All of them are with their brokers when it returns. Raises SourceUnreachableError, BrokerError."""
        for start in range(0, len(judged), _AT_A_TIME):
            self._connected.call(self._send_rows(judged[start : start + _AT_A_TIME]))

    async def _send_rows(self, judged: Iterable[Judged]) -> None:
        work = []
        for record, verdict in judged:
            if verdict is not None:
                self._reporting.note(record, verdict, self._client.clock.now_ms())
                shown = replace(verdict, reason=self._reporting.masked(verdict.reason))
                work.append(self._surely(record, decided(record, shown, self._limit)))
        for outcome in await asyncio.gather(*work, return_exceptions=True):
            if outcome is not None:
                raise outcome

    async def _surely(self, record: Record, verdict: Retry | Dead) -> None:
        window: RetryWindow | None = None
        topic, source = self._client.wire_name(record.stored_topic), _source_of(record)
        while True:
            try:
                await self._client.routes.get(topic, timeout_ms=self._options.request_ms)
                await self.carry(record, fate_of(record, verdict, self._batch))
                break
            except MQError as error:
                window = window or RetryWindow(f"sending back {source}", self._options.retry_ms, self._client.clock)
                pause_ms = window.failed(error)
                logger.info("row not sent back, trying again: error=%s", error)
                await asyncio.sleep(pause_ms / 1000)
        if isinstance(verdict, Dead):
            self.dead += 1
        else:
            self.retried += 1

    def _has_body(self, message: Record) -> bool:
        return message.body is not None

    async def _content(self, message: Record) -> Content:
        body, sys_flag = (message.body, 0) if message.body is not None else await self._as_stored(message)
        return Content(message.raw_properties, self._stored_id(message) or message.message_id, body, sys_flag)

    async def _send_copies(self, copy: OutgoingMessage, message: Record, step: Step) -> None:
        await self._send_copy(copy, QueueId(self.retry_topic, message.broker, 0), message, step)

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
