"""ReceiveMessage, AckMessage, ChangeInvisibleDuration, ForwardMessageToDeadLetterQueue: pops of the same handlers.

A receive waits on a caller of its own: when its client gives up, that caller is closed and nothing is handed out for
it. What was handed out and could not be sent is visible again after a second, and not counted as an attempt.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterator
from functools import partial
from typing import Any, Final, NamedTuple

from pyromq.broker.grpc.clients import GrpcClient, GrpcClients
from pyromq.broker.grpc.ground import FrontGround
from pyromq.broker.grpc.messages import Delivery, Room, check_room, delivered
from pyromq.broker.grpc.names import group_name, topic_name
from pyromq.broker.grpc.polling import polling_ms
from pyromq.broker.grpc.renewals import FIRST_MS, Renewal
from pyromq.broker.grpc.rpc import checked, read_message
from pyromq.broker.grpc.statuses import StatusError, status_of_error, status_of_response
from pyromq.broker.popping.calls import COUNT_MAX
from pyromq.broker.popping.plans import INVISIBLE_MS_MAX
from pyromq.broker.popping.receipts import Receipt, parse_receipt, real_topic
from pyromq.errors import MQError
from pyromq.net.http2 import GrpcCall
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.grpc.codes import FilterKind, StatusCode
from pyromq.wire.grpc.definitions import FilterExpression, Resource, Status, status_of, time_of
from pyromq.wire.grpc.protobuf import Proto
from pyromq.wire.grpc.services import (
    AckMessageRequest,
    AckMessageResponse,
    AckMessageResultEntry,
    ChangeInvisibleDurationRequest,
    ChangeInvisibleDurationResponse,
    ForwardToDeadLetterRequest,
    ReceiveMessageRequest,
    ReceiveMessageResponse,
    StatusResponse,
)
from pyromq.wire.headers.pop import (
    AckHeader,
    ChangeInvisibleTimeHeader,
    ChangeInvisibleTimeResponseHeader,
    ForwardToDeadLettersHeader,
    PopHeader,
    PopResponseHeader,
)
from pyromq.wire.received import Received
from pyromq.wire.record import Record, split_records

logger = logging.getLogger(__name__)

INVISIBLE_MS_MIN: Final = 10_000
GIVEN_BACK_MS: Final = 1_000
ACKS_MAX: Final = 1_024
_NEWEST: Final = 1
_OK: Final = status_of(StatusCode.OK)


class Popped(NamedTuple):
    """A message of a hand-out, and its receipt."""

    record: Record
    receipt: Receipt


class Receiving:
    """Answers four RPCs, and renews what push consumers have."""

    def __init__(self, ground: FrontGround, clients: GrpcClients) -> None:
        self._ground = ground
        self._clients = clients
        self._tasks: set[asyncio.Task[None]] = set()

    # --- receive ---

    async def receive(self, client: GrpcClient, request: ReceiveMessageRequest, call: GrpcCall) -> None:
        check_room(call)
        header, topic = self._pop_header(client, request, call)
        caller = self._clients.receiver(client)
        try:
            future = caller.call(RequestCode.POP_MESSAGE, header)
            response = await asyncio.shield(future)
            await call.connection.turns.have()
        except asyncio.CancelledError:
            caller.close("the client gave up")
            if not future.cancel() and not future.cancelled() and not future.exception():  # it has its response
                self._give_back(client, header, self._popped(future.result()))
            raise
        self._clients.rest(client, caller)
        if response.code:
            self._finish(call, status_of_response(response))
            return
        self._deliver(client, header, topic, call, self._popped(response), renew=request.auto_renew)

    def _pop_header(
        self, client: GrpcClient, request: ReceiveMessageRequest, call: GrpcCall
    ) -> tuple[PopHeader, Resource]:
        """Build the pop request of a receive. Raises StatusError."""
        queue = request.message_queue
        topic = topic_name(queue.topic if queue else None, client.namespace)
        group = group_name(request.group, client.namespace)
        broker = queue.broker.name if queue and queue.broker else ""
        if broker and broker != self._ground.settings.name:
            text = f"broker {broker} is not here, this is {self._ground.settings.name}; query the route again"
            raise StatusError(StatusCode.BAD_REQUEST, text)
        if request.batch_size < 1:
            text = f"a receive asks for 1 to {COUNT_MAX} messages, not {request.batch_size}"
            raise StatusError(StatusCode.BAD_REQUEST, text)
        self._ground.topic(topic, client.session)
        config = self._ground.tables.groups.table.get(group)
        expression, kind = expression_of(request.filter_expression)
        header = PopHeader(
            consumer_group=group,
            topic=topic,
            queue_id=-1,
            max_msg_nums=min(request.batch_size, COUNT_MAX),
            invisible_time=_invisible_ms(request),
            poll_time=polling_ms(request.long_polling_timeout, call, client, self._ground.clock.monotonic_ms()),
            init_mode=_NEWEST,
            exp=expression,
            exp_type=kind,
            order=True if config is not None and config.consume_message_orderly else None,
            attempt_id=request.attempt_id,
        )
        assert queue is not None and queue.topic is not None
        return header, queue.topic

    def _deliver(
        self,
        client: GrpcClient,
        header: PopHeader,
        topic: Resource,
        call: GrpcCall,
        messages: list[Popped],
        *,
        renew: bool,
    ) -> None:
        if not call.is_open:
            self._give_back(client, header, messages)
            return
        now_ms = self._ground.clock.monotonic_ms()
        call.send(ReceiveMessageResponse(status=_OK).encode())
        before, room = call.unsent_messages, Room(call)
        for index, (record, receipt) in enumerate(messages):
            text = receipt.text()
            attempts = record.delivery_attempt + 1
            message = delivered(record, Delivery(topic, text, attempts, receipt.invisible_ms))
            if not room.has(message):
                self._give_back(client, header, messages[index:])
                messages = messages[:index]
                break
            call.send(ReceiveMessageResponse(message=message).encode())
            if renew:
                client.renewals.keep(header.consumer_group, header.topic, text, now_ms)
        if call.unsent_messages > before:
            call.on_closed = partial(self._unsent, client, header, call, messages)
        call.send(ReceiveMessageResponse(delivery_timestamp=time_of(self._ground.clock.now_ms())).encode())
        call.finish()

    def _unsent(self, client: GrpcClient, header: PopHeader, call: GrpcCall, messages: list[Popped]) -> None:
        """The client gave up while messages waited for its window: the last ones never left."""
        count = max(0, call.unsent_messages - 1)  # behind them is the time of delivery
        if count:
            self._give_back(client, header, messages[-count:])

    def _finish(self, call: GrpcCall, status: Status) -> None:
        for response in failed_receive(None, status, self._ground.clock.now_ms()):
            call.send(response.encode())
        call.finish()

    def failed_receive(self, request: Any, status: Status) -> list[Proto]:
        return failed_receive(request, status, self._ground.clock.now_ms())

    def _popped(self, response: Received[Any]) -> list[Popped]:
        return list(popped(response, self._ground.settings.name))

    # --- settling ---

    def ack(self, call: GrpcCall, data: bytes) -> None:
        """Answered when all entries are safe, or refused."""
        request = read_message(AckMessageRequest, data)
        try:
            client = self._clients.of(call)
            group = group_name(request.group, client.namespace)
            topic = topic_name(request.topic, client.namespace)
            if not 1 <= len(request.entries) <= ACKS_MAX:
                text = f"a request acknowledges 1 to {ACKS_MAX} messages, not {len(request.entries)}"
                raise StatusError(StatusCode.BAD_REQUEST, text)
        except MQError as error:
            call.respond(AckMessageResponse(status=status_of_error(error)).encode())
            return
        _Acks(call, request, len(request.entries)).run(partial(self._ack_one, client, group, topic))

    def _ack_one(self, client: GrpcClient, group: str, topic: str, handle: str) -> asyncio.Future[Received[Any]]:
        """Begin the acknowledgement of one receipt handle. Raises MQError."""
        receipt = self._receipt(client.renewals.current(handle))
        client.renewals.drop(handle)
        header = AckHeader(
            consumer_group=group,
            topic=real_topic(receipt.kind, group, topic),
            queue_id=receipt.queue_id,
            extra_info=receipt.text(),
            offset=receipt.offset,
        )
        return client.caller.call(RequestCode.ACK_MESSAGE, header)

    def _receipt(self, handle: str) -> Receipt:
        receipt = parse_receipt(handle)
        if receipt.broker != self._ground.settings.name:
            text = f"the message is of broker {receipt.broker[:80]}, this is {self._ground.settings.name}"
            raise StatusError(StatusCode.INVALID_RECEIPT_HANDLE, text)
        return receipt

    async def change(
        self, client: GrpcClient, request: ChangeInvisibleDurationRequest, call: GrpcCall
    ) -> ChangeInvisibleDurationResponse:
        group = group_name(request.group, client.namespace)
        topic = topic_name(request.topic, client.namespace)
        invisible_ms = request.invisible_duration.ms if request.invisible_duration else 0
        if not 0 <= invisible_ms <= INVISIBLE_MS_MAX:
            text = f"an invisible time of {invisible_ms} ms is not between 0 and {INVISIBLE_MS_MAX} ms (12 h)"
            raise StatusError(StatusCode.ILLEGAL_INVISIBLE_TIME, text)
        handle = client.renewals.current(request.receipt_handle)
        client.renewals.drop(request.receipt_handle)
        changed = await self._change(client, group, topic, handle, invisible_ms, suspend=bool(request.suspend))
        return ChangeInvisibleDurationResponse(status=_OK, receipt_handle=changed)

    async def _change(
        self, client: GrpcClient, group: str, topic: str, handle: str, invisible_ms: int, *, suspend: bool = False
    ) -> str:
        """The new receipt. Raises MQError."""
        receipt = self._receipt(handle)
        header = ChangeInvisibleTimeHeader(
            consumer_group=group,
            topic=real_topic(receipt.kind, group, topic),
            queue_id=receipt.queue_id,
            extra_info=receipt.text(),
            offset=receipt.offset,
            invisible_time=invisible_ms,
            suspend=suspend or None,
        )
        response = checked(await client.caller.call(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, header))
        found = response.header_as(ChangeInvisibleTimeResponseHeader)
        return receipt._replace(
            start=receipt.offset,
            popped_ms=found.pop_time,
            invisible_ms=found.invisible_time,
            number=found.revive_qid,
        ).text()

    async def forward(self, client: GrpcClient, request: ForwardToDeadLetterRequest, call: GrpcCall) -> StatusResponse:
        group = group_name(request.group, client.namespace)
        topic = topic_name(request.topic, client.namespace)
        receipt = self._receipt(client.renewals.current(request.receipt_handle))
        client.renewals.drop(request.receipt_handle)
        header = ForwardToDeadLettersHeader(consumer_group=group, topic=topic, extra_info=receipt.text())
        checked(await client.caller.call(RequestCode.FORWARD_TO_DEAD_LETTERS, header))
        return StatusResponse(status=_OK)

    # --- renewing, giving back ---

    def renew(self, client: GrpcClient) -> None:
        """What runs out soon is changed to later."""
        for first, renewal in client.renewals.due(self._ground.clock.monotonic_ms()):
            renewal.is_under_way = True
            self._start(self._renew(client, first, renewal))

    async def _renew(self, client: GrpcClient, first: str, renewal: Renewal) -> None:
        invisible_ms = renewal.next_ms
        try:
            handle = await self._change(client, renewal.group, renewal.topic, renewal.handle, invisible_ms)
        except MQError as error:
            logger.debug("not renewed: group=%s topic=%s reason=%s", renewal.group, renewal.topic, error)
            client.renewals.drop(first)
            return
        renewal.handle, renewal.is_under_way = handle, False
        renewal.until_ms = self._ground.clock.monotonic_ms() + invisible_ms
        renewal.times += 1

    async def release(self, client: GrpcClient) -> None:
        """The client is gone: what it had is visible again after a second."""
        found = client.renewals.take_all()
        await asyncio.gather(*(self._show_again(client, each.group, each.topic, each.handle) for each in found))

    def _give_back(self, client: GrpcClient, header: PopHeader, messages: list[Popped]) -> None:
        for _, receipt in messages:
            text = receipt.text()
            client.renewals.drop(text)
            self._start(self._show_again(client, header.consumer_group, header.topic, text, suspend=True))

    async def _show_again(
        self, client: GrpcClient, group: str, topic: str, handle: str, *, suspend: bool = False
    ) -> None:
        try:
            await self._change(client, group, topic, handle, GIVEN_BACK_MS, suspend=suspend)
        except MQError as error:  # it comes again when its time is over
            logger.debug("not given back: group=%s topic=%s reason=%s", group, topic, error)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class _Acks:
    """Acknowledgements of one call; it is answered when the last one is safe, or refused."""

    def __init__(self, call: GrpcCall, request: AckMessageRequest, waiting: int) -> None:
        self._call = call
        self._request = request
        self._waiting = waiting
        self._statuses: list[Status] = [_OK] * waiting

    def run(self, ack: Any) -> None:
        for index, entry in enumerate(self._request.entries):
            try:
                future: asyncio.Future[Received[Any]] = ack(entry.receipt_handle)
            except MQError as error:
                self._settled(index, status_of_error(error))
            else:
                future.add_done_callback(partial(self._answered, index))

    def _answered(self, index: int, future: asyncio.Future[Received[Any]]) -> None:
        if future.cancelled():
            return
        error = future.exception()
        if error is not None:
            self._settled(index, status_of_error(error if isinstance(error, MQError) else MQError(str(error))))
        else:
            self._settled(index, status_of_response(future.result()) if future.result().code else _OK)

    def _settled(self, index: int, status: Status) -> None:
        self._statuses[index] = status
        self._waiting -= 1
        if self._waiting:
            return
        entries = [
            AckMessageResultEntry(message_id=entry.message_id, receipt_handle=entry.receipt_handle, status=each)
            for entry, each in zip(self._request.entries, self._statuses, strict=True)
        ]
        codes = {each.code for each in self._statuses}
        common = self._statuses[0] if len(codes) == 1 else status_of(StatusCode.MULTIPLE_RESULTS)
        self._call.respond(AckMessageResponse(status=common, entries=entries).encode())


def popped(response: Received[Any], broker: str) -> Iterator[Popped]:
    """The messages of a pop response with their receipts; nothing when it is not a success."""
    if response.code != ResponseCode.SUCCESS:
        return
    header = response.header_as(PopResponseHeader)
    records = iter(split_records(response.body))
    for entry, starts in zip(
        (header.msg_offset_info or "").split(";"), (header.start_offset_info or "").split(";"), strict=True
    ):
        kind, queue_id, offsets = entry.split(" ")
        start = int(starts.rpartition(" ")[2])
        for offset in offsets.split(","):
            receipt = Receipt(
                start,
                header.pop_time,
                header.invisible_time,
                header.revive_qid,
                int(kind),
                broker,
                int(queue_id),
                int(offset),
            )
            yield Popped(next(records), receipt)


def failed_receive(request: Any, status: Status, now_ms: int) -> list[Proto]:
    return [ReceiveMessageResponse(status=status), ReceiveMessageResponse(delivery_timestamp=time_of(now_ms))]


def expression_of(found: FilterExpression | None) -> tuple[str, str]:
    """Expression and type as remoting has them."""
    if found is None or not found.expression:
        return "*", "TAG"
    return found.expression, "SQL92" if found.kind == FilterKind.SQL else "TAG"


def _invisible_ms(request: ReceiveMessageRequest) -> int:
    """Invisible duration of a receive. Raises StatusError."""
    if request.auto_renew:
        return FIRST_MS
    invisible_ms = request.invisible_duration.ms if request.invisible_duration else 0
    if not INVISIBLE_MS_MIN <= invisible_ms <= INVISIBLE_MS_MAX:
        text = f"an invisible time of {invisible_ms} ms is not between 10 s and 12 h"
        raise StatusError(StatusCode.ILLEGAL_INVISIBLE_TIME, text)
    return invisible_ms
