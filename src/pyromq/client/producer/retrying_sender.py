"""Retrying sender: attempt after attempt, until a broker has it or none is left (``attempts`` decides)."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

from pyromq.client.core.broker_health import BrokerHealth
from pyromq.client.core.client import Client
from pyromq.client.core.errors import error_of
from pyromq.client.core.retry_advice import is_broker_away
from pyromq.client.core.settings import ProducerSettings
from pyromq.client.producer.attempts import Attempts, SendStep
from pyromq.client.producer.outgoing import OutgoingMessage
from pyromq.client.producer.topic_queues import TopicQueues
from pyromq.client.producer.topic_queues_table import TopicQueuesTable
from pyromq.compiled_core import SendFrame, SentFacts
from pyromq.errors import (
    ConnectFailedError,
    MQError,
    NoMasterError,
    RequestTimeoutError,
    SendFailedError,
    TopicNotFoundError,
    TransportError,
)
from pyromq.model.message import SendReceipt, SendStatus
from pyromq.model.queue import QueueId
from pyromq.net import Backoff, Connection
from pyromq.wire.codes import ResponseCode
from pyromq.wire.fast.send_request import header_fields, send_frame
from pyromq.wire.headers.producer import SendResponseHeader
from pyromq.wire.received import Received
from pyromq.wire.send_statuses import SEND_STATUSES, STORED_CODES

logger = logging.getLogger(__name__)

_SEND_OK: Final = SendStatus.SEND_OK
_NOT_FLUSHED: Final = SendStatus.FLUSH_DISK_TIMEOUT
_PAUSE: Final = Backoff(first_ms=50, ceiling_ms=500)
_SILENT_MS: Final = 200  # for the connection to a broker that was silent; then the route is looked at again


class RetryingSender:
    """Sends messages of one producer, with attempts at other brokers."""

    def __init__(
        self,
        client: Client,
        settings: ProducerSettings,
        topic_queues_table: TopicQueuesTable,
        group: str,
    ) -> None:
        self._client = client
        self._clock = client.clock
        self._settings = settings
        self._topic_queues_table = topic_queues_table
        self.health = BrokerHealth(self._clock, settings.latency_table) if settings.latency_fault else None
        self._group = group
        self._template_topic = settings.template_topic
        self._queue_nums = str(settings.new_topic_queues)
        self._is_signing = client.signer.is_needed

    def ext(self, outgoing: OutgoingMessage, queue: QueueId) -> dict[str, str]:
        """The fields of the request."""
        ext = header_fields(outgoing, queue, self._group, self._template_topic, self._queue_nums)
        return self._client.signer.signed_fields(ext, outgoing.body) if self._is_signing else ext

    def frame(self, topic: str, queue: QueueId) -> SendFrame:
        """Prepared frame for unsigned sends to a queue; ``topic`` as servers know it."""
        return send_frame(topic, queue, self._group, self._template_topic, self._queue_nums)

    def receipt_of_facts(self, outgoing: OutgoingMessage, queue: QueueId, facts: SentFacts) -> SendReceipt:
        """``receipt`` of a response that the compiled core has read: one of success."""
        message_id, number, offset, on_disk, transaction_id, region, recall_handle = facts
        if number != queue.number:
            queue = QueueId(queue.topic, queue.broker, number)
        return SendReceipt(
            _SEND_OK, outgoing.unique_ids, message_id, queue, offset, on_disk, transaction_id, region, recall_handle
        )  # fmt: skip

    def receipt(self, outgoing: OutgoingMessage, queue: QueueId, received: Received[Any]) -> SendReceipt:
        """Read the receipt from a response. Raises RemoteProtocolError for one without the fields it must have."""
        header = received.header_as(SendResponseHeader)
        if header.queue_id != queue.number:
            queue = QueueId(queue.topic, queue.broker, header.queue_id)
        status = _SEND_OK if received.code == 0 else SEND_STATUSES[received.code]
        return SendReceipt(
            status,
            outgoing.unique_ids,
            header.msg_id,
            queue,
            header.queue_offset,
            _truth(header.on_disk) if status is not _NOT_FLUSHED else False,
            header.transaction_id or "",
            header.region or "",
            header.recall_handle or "",
        )

    # --- the first attempt was made elsewhere ---

    async def after_failure(self, outgoing: OutgoingMessage, queue: QueueId, error: MQError) -> SendReceipt:
        """On from there. Raises SendFailedError."""
        attempts, name = self.attempts_of(outgoing, is_pinned=False), self._client.plain_name(outgoing.topic)
        await self._note(outgoing, name, queue.broker, error, attempts)
        return await self.deliver(outgoing, name, None, attempts)

    async def after_response(
        self, outgoing: OutgoingMessage, queue: QueueId, connection: Connection, received: Received[Any]
    ) -> SendReceipt:
        """On from a response other than success. Raises SendFailedError."""
        if received.code in STORED_CODES:
            return self.receipt(outgoing, queue, received)
        return await self.after_failure(outgoing, queue, _refusal(outgoing, connection, received))

    # --- attempts ---

    async def deliver(
        self, outgoing: OutgoingMessage, name: str, pinned: QueueId | None, attempts: Attempts | None = None
    ) -> SendReceipt:
        """``name`` is the topic as the application calls it. Raises SendFailedError, NoRouteError."""
        attempts = attempts or self.attempts_of(outgoing, is_pinned=pinned is not None)
        while True:
            topic_queues = await self.topic_queues(outgoing, name, attempts)
            queue = pinned or self._next_queue(topic_queues, attempts.last_broker)
            started_ms = self._clock.monotonic_ms()
            try:
                received, error = await self._attempt(outgoing, topic_queues, queue, attempts)
            except TransportError as caught:
                received, error = None, caught
            if self.health is not None:
                self._remember(self.health, queue.broker, error, self._clock.monotonic_ms() - started_ms)
            if received is not None and not self._wants_better(received, attempts):
                self._topic_queues_table.used(topic_queues)
                return self.receipt(outgoing, queue, received)
            if error is not None:
                await self._note(outgoing, name, queue.broker, error, attempts)

    async def topic_queues(self, outgoing: OutgoingMessage, name: str, attempts: Attempts) -> TopicQueues:
        """Where it can go; a broker that has no master at the moment is waited for. Raises as ``deliver`` does."""
        while True:
            try:
                return await self._topic_queues_table.find(name, attempts.left_ms(self._clock.monotonic_ms()))
            except NoMasterError as error:
                await self._note(outgoing, name, error.broker, error, attempts)

    def attempts_of(self, outgoing: OutgoingMessage, *, is_pinned: bool) -> Attempts:
        """Attempts of a message, of which none is made yet."""
        return Attempts(
            deadline_ms=outgoing.deadline_ms,
            retries=self._settings.retries if outgoing.retries is None else outgoing.retries,
            is_pinned=is_pinned,
            restart_deadline_ms=outgoing.restart_deadline_ms,
            answer_ms=self._settings.answer_ms,
        )

    async def connection(self, topic_queues: TopicQueues, queue: QueueId, timeout_ms: int) -> Connection:
        """A silent broker is given a moment: another may be master. Raises ConnectFailedError, ClientClosedError."""
        link = topic_queues.links.get(queue.broker) or self._client.master_link(queue.broker)
        if link.ready is None and self._client.silence.is_silent(str(link.address)):
            timeout_ms = min(timeout_ms, _SILENT_MS)
        return link.ready or await link.connection(timeout_ms=timeout_ms)

    async def _attempt(
        self, outgoing: OutgoingMessage, topic_queues: TopicQueues, queue: QueueId, attempts: Attempts
    ) -> tuple[Received[Any] | None, MQError | None]:
        """The response if the message was stored, else the refusal. Raises TransportError."""
        left_ms = attempts.left_ms(self._clock.monotonic_ms())
        if left_ms <= 0:
            raise ConnectFailedError("there was no time left to send: what came before took all of timeout_ms")
        connection = await self.connection(topic_queues, queue, left_ms)
        left_ms = max(1, attempts.answer_ms(self._clock.monotonic_ms()))
        timeout_ms = min(left_ms, self._settings.attempt_timeout_ms or left_ms)
        ext = self.ext(outgoing, queue)
        self._client.silence.expect()
        received = await connection.request(outgoing.code, ext, outgoing.body, timeout_ms=timeout_ms)
        if received.code in STORED_CODES:
            return received, None
        return None, _refusal(outgoing, connection, received)

    async def _note(
        self, outgoing: OutgoingMessage, name: str, broker: str, error: MQError, attempts: Attempts
    ) -> None:
        """Gives up with SendFailedError, or returns when it is time to try again."""
        self._client.require_open()
        topic_queues = self._topic_queues_table.known.get(name)
        brokers = topic_queues.brokers if topic_queues else {broker}
        now_ms = self._clock.monotonic_ms()
        step = attempts.after(broker, error, now_ms, brokers)
        if isinstance(error, RequestTimeoutError) and (address := self._client.brokers.address(broker)):
            self._client.silence.timed_out(self._client.brokers.link(address))
        if isinstance(error, TransportError | TopicNotFoundError) or is_broker_away(error):
            self._client.routes.refresh_soon(outgoing.topic)  # perhaps the broker has moved
        if step is SendStep.GIVE_UP:
            raise SendFailedError(name, attempts.failed) from error
        logger.info("send failed, trying again: topic=%s broker=%s error=%s", name, broker, error)
        if step is SendStep.PAUSE:
            pause_ms = _PAUSE.delay_ms(attempts.pauses - 1, self._client.rng)
            await asyncio.sleep(min(pause_ms, attempts.left_ms(now_ms)) / 1000)
            if attempts.left_ms(self._clock.monotonic_ms()) <= 0:
                raise SendFailedError(name, attempts.failed) from error

    def _next_queue(self, topic_queues: TopicQueues, last_broker: str) -> QueueId:
        if self.health is not None:
            return topic_queues.next_healthy(last_broker, self.health)
        return topic_queues.next_elsewhere(last_broker) if last_broker else topic_queues.next()

    def _wants_better(self, received: Received[Any], attempts: Attempts) -> bool:
        """Stored, but not as safely as asked, and that is not good enough."""
        if received.code == ResponseCode.SUCCESS or not self._settings.retry_unless_ok or attempts.is_pinned:
            return False
        attempts.reached += 1
        return attempts.reached <= attempts.retries and attempts.left_ms(self._clock.monotonic_ms()) > 0

    def _remember(self, health: BrokerHealth, broker: str, error: MQError | None, latency_ms: int) -> None:
        if error is None:
            health.answered(broker, latency_ms)
        else:
            health.failed(broker, was_reached=not isinstance(error, TransportError))


def _refusal(outgoing: OutgoingMessage, connection: Connection, received: Received[Any]) -> MQError:
    if received.code == ResponseCode.GO_AWAY:
        connection.close("the broker is going down and said so")
    return error_of(received, topic=outgoing.topic)


def _truth(text: str | None) -> bool | None:
    return None if text is None else text == "true"
