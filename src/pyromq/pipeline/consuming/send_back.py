"""Rows that are not done, on their way back to the broker that has them.

    retry   36 CONSUMER_SEND_MSG_BACK: the broker delivers a copy again after the delay; if it cannot (the message has
            expired since), a copy is sent to %RETRY%group
    dead    a send to %RETRY%group that has more attempts than it may have, which brokers put to %DLQ%group: unlike a
            send-back it carries properties, so the letter tells what happened; and it needs no topic to exist. A body
            that cannot be decompressed is sent as the broker has it

A row is given back before its batch counts as done, and tried again for ``retryTimeout``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import Final

from pyromq.client.consumer.base.broker_calls import SEND_BACK_MS, BrokerCalls
from pyromq.client.consumer.rules.retry_copy import FIRST_RETRY_LEVEL
from pyromq.client.core.client import Client
from pyromq.client.core.errors import error_of
from pyromq.client.producer.outgoing import SEND, OutgoingMessage
from pyromq.errors import BrokerError, MQError
from pyromq.model import property_names as names
from pyromq.model.names import DEFAULT_TOPIC, retry_topic
from pyromq.model.queue import QueueId
from pyromq.pipeline.consuming.rows import Judged, Record
from pyromq.pipeline.consuming.verdicts import STAGE_ATTEMPTS, Dead, Retry
from pyromq.pipeline.core.connections import Connected
from pyromq.pipeline.core.options import SourceOptions
from pyromq.pipeline.core.retry_window import RetryWindow
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.fast.send_request import header_fields
from pyromq.wire.flags import COMPRESSION_MASK, SysFlag
from pyromq.wire.headers.consumer import SendBackHeader, ViewMessageHeader
from pyromq.wire.property_text import value_of, with_values, without
from pyromq.wire.record import decode_record

logger = logging.getLogger(__name__)

DLQ_ERROR: Final = "DLQ_ERROR"
DLQ_STAGE: Final = "DLQ_STAGE"
DLQ_BATCH: Final = "DLQ_BATCH"
DLQ_SOURCE: Final = "DLQ_SOURCE"
"""Properties of dead letters: why, where in the way of a row, in which batch, and from which offset it was read."""
_ERROR_CHARACTERS_MAX: Final = 1_000
_AT_A_TIME: Final = 256
_PRODUCER: Final = "CLIENT_INNER_PRODUCER"
_LEFT_OUT: Final = (
    names.PREPARED,
    names.MIN_OFFSET,
    names.MAX_OFFSET,
    names.CONSUME_START_TIME,
    names.DELAY,
    names.WAIT,
)
_WITHOUT_MARKS: Final = str.maketrans({names.NAME_END: " ", names.ITEM_END: " "})
_STORED: Final = frozenset(
    (
        ResponseCode.SUCCESS,
        ResponseCode.FLUSH_DISK_TIMEOUT,
        ResponseCode.FLUSH_SLAVE_TIMEOUT,
        ResponseCode.SLAVE_NOT_AVAILABLE,
    )
)


def decided(record: Record, verdict: Retry | Dead, attempts_max: int) -> Retry | Dead:
    """A row that was tried often enough is dead, with the last reason."""
    if isinstance(verdict, Retry) and record.delivery_attempt >= attempts_max:
        return Dead(verdict.reason or f"it was tried {record.delivery_attempt + 1} times", STAGE_ATTEMPTS)
    return verdict


def letter_properties(record: Record, dead: Dead, batch: str) -> str:
    """Those of the message, and what happened to it."""
    reason = dead.reason.translate(_WITHOUT_MARKS).strip()[:_ERROR_CHARACTERS_MAX] or "no reason given"
    source = f"{record.stored_topic}/{record.broker}/{record.queue_id}/{record.queue_offset}"
    return with_values(
        _copied(record),
        {DLQ_ERROR: reason, DLQ_STAGE: dead.stage, DLQ_BATCH: batch, DLQ_SOURCE: source},
    )


def _copied(record: Record) -> str:
    text = without(record.raw_properties, _LEFT_OUT)
    first = {names.RETRY_TOPIC: record.stored_topic, names.ORIGIN_MESSAGE_ID: record.message_id}
    missing = {name: value for name, value in first.items() if value and not value_of(text, name)}
    return with_values(text, missing)


class RowSendBack:
    """For one task; ``batch`` names it in dead letters."""

    def __init__(self, connected: Connected, options: SourceOptions, group: str, attempts_max: int, batch: str) -> None:
        self._connected = connected
        self._options = options
        self._batch = batch
        self._client: Client = connected.client
        self._group = self._client.wire_name(group)
        self._attempts_max = attempts_max
        self._calls = BrokerCalls(self._client, self._group)
        self.retried = self.dead = 0

    def give_back(self, judged: Sequence[Judged]) -> None:
        """All of them are with their brokers when it returns. Raises SourceUnreachableError, BrokerError."""
        for start in range(0, len(judged), _AT_A_TIME):
            self._connected.call(self._give_back(judged[start : start + _AT_A_TIME]))

    async def _give_back(self, judged: Iterable[Judged]) -> None:
        limit = self._attempts_max
        work = [
            self._surely(record, decided(record, verdict, limit)) for record, verdict in judged if verdict is not None
        ]
        for outcome in await asyncio.gather(*work, return_exceptions=True):
            if outcome is not None:
                raise outcome

    async def _surely(self, record: Record, verdict: Retry | Dead) -> None:
        patience: RetryWindow | None = None
        while True:
            try:
                await self._client.routes.get(
                    self._client.wire_name(record.stored_topic), timeout_ms=self._options.request_ms
                )
                if isinstance(verdict, Dead):
                    await self._bury(record, verdict)
                    self.dead += 1
                else:
                    await self._retry(record, verdict)
                    self.retried += 1
                return
            except MQError as error:
                what = f"giving back {record.stored_topic}/{record.broker}/{record.queue_id}/{record.queue_offset}"
                patience = patience or RetryWindow(what, self._options.retry_ms, self._client.clock)
                pause_ms = patience.failed(error)
                logger.info("row not given back, trying again: error=%s", error)
                await asyncio.sleep(pause_ms / 1000)

    async def _retry(self, record: Record, verdict: Retry) -> None:
        try:
            await self._calls.send_back(record.broker, self._header(record, verdict.delay_level))
        except BrokerError as error:
            if record.body is None:
                raise
            logger.info("not sent back, sending a copy: id=%s error=%s", record.message_id, error)
            level = verdict.delay_level or FIRST_RETRY_LEVEL + record.delivery_attempt
            text = with_values(_copied(record), {names.DELAY: str(level)})
            await self._send(record, text, record.body, attempts_max=self._attempts_max)

    async def _bury(self, record: Record, dead: Dead) -> None:
        body, sys_flag = (record.body, 0) if record.body is not None else await self._as_stored(record)
        await self._send(record, letter_properties(record, dead, self._batch), body, sys_flag, attempts_max=0)

    async def _as_stored(self, record: Record) -> tuple[bytes, int]:
        """A body that nobody can decompress, as its broker has it, and the flag that says how it was compressed."""
        link, header = self._client.master_link(record.broker), ViewMessageHeader(position=record.position)
        response = await self._client.ask(link, RequestCode.VIEW_MESSAGE_BY_ID, header)
        found = decode_record(response.body)
        return found.body, found.sys_flag & (SysFlag.COMPRESSED | COMPRESSION_MASK)

    def _header(self, record: Record, delay_level: int) -> SendBackHeader:
        return SendBackHeader(
            position=record.position,
            group=self._group,
            delay_level=delay_level,
            origin_msg_id=record.message_id or None,
            origin_topic=self._client.wire_name(record.stored_topic),
            max_reconsume_times=self._attempts_max,
        )

    async def _send(
        self, record: Record, properties: str, body: bytes, sys_flag: int = 0, *, attempts_max: int
    ) -> None:
        """A copy that counts this attempt; more than ``attempts_max`` make it a dead letter."""
        client, topic = self._client, retry_topic(self._group)
        letter = OutgoingMessage(SEND, topic, body, properties, "", client.clock.now_ms(), 0, record.flag, sys_flag)
        fields = header_fields(letter, QueueId(topic, record.broker, 0), _PRODUCER, DEFAULT_TOPIC, "1")
        fields |= {"j": str(record.delivery_attempt + 1), "l": str(attempts_max)}
        link = client.master_link(record.broker)
        response = await link.request(
            SEND, client.signer.signed(fields, letter.body), letter.body, timeout_ms=SEND_BACK_MS
        )
        if response.code not in _STORED:
            raise error_of(response)
