"""ReceiveMessage: a pop of the same handlers, whose messages are delivered as clients of gRPC know them.

A receive waits on a caller of its own: when its client gives up, that caller is closed and nothing is handed out for
it. What was handed out and could not be sent is visible again after a second, and not counted as an attempt.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from pyromq.broker.dispatching.caller import Caller
from pyromq.broker.grpc.clients import GrpcClient, GrpcClients
from pyromq.broker.grpc.ground import FrontGround
from pyromq.broker.grpc.messages import (
    OWN_PROPERTIES,
    Delivery,
    Room,
    check_room,
    delivered,
    is_dead_letters,
    room_bytes,
)
from pyromq.broker.grpc.names import group_name, topic_name
from pyromq.broker.grpc.polling import polling_ms
from pyromq.broker.grpc.renewals import FIRST_MS
from pyromq.broker.grpc.rpc import read_message
from pyromq.broker.grpc.settling import Settling
from pyromq.broker.grpc.statuses import StatusError, status_of_error, status_of_response
from pyromq.broker.popping.calls import COUNT_MAX, PopResult
from pyromq.broker.popping.plans import INVISIBLE_MS_MAX
from pyromq.broker.popping.receipts import Receipt
from pyromq.compiled_core import core
from pyromq.errors import ConnectionLostError, MQError
from pyromq.net.http2 import GrpcCall
from pyromq.wire.codes import RequestCode
from pyromq.wire.grpc.codes import FilterKind, StatusCode
from pyromq.wire.grpc.definitions import FilterExpression, Resource, Status, status_of, time_of
from pyromq.wire.grpc.services import ReceiveMessageRequest, ReceiveMessageResponse
from pyromq.wire.headers.pop import PopHeader
from pyromq.wire.received import Received
from pyromq.wire.record import Record, split_records

logger = logging.getLogger(__name__)

INVISIBLE_MS_MIN: Final = 10_000
_NEWEST: Final = 1
_OK_RESPONSE: Final = ReceiveMessageResponse(status=status_of(StatusCode.OK)).encode()


class Receiving:
    """Answers one RPC."""

    def __init__(self, ground: FrontGround, clients: GrpcClients, settling: Settling) -> None:
        self._ground = ground
        self._clients = clients
        self._settling = settling
        self._deliveries = core.Deliveries(sorted(OWN_PROPERTIES)) if core is not None else None
        self._tasks: set[asyncio.Task[None]] = set()  # those that wait for a turn

    def receive(self, call: GrpcCall, data: bytes) -> None:
        """Answered when there is something, or when its time is over; nothing waits in a task for that."""
        request = read_message(ReceiveMessageRequest, data)
        try:
            client = self._clients.of(call)
        except MQError as error:
            self.finish(call, status_of_error(error))
        else:
            self._wait(client, call, request)

    def receive_of(self, client: GrpcClient, call: GrpcCall, data: bytes) -> None:
        """``receive`` of a client that is known."""
        self._wait(client, call, read_message(ReceiveMessageRequest, data))

    def _wait(self, client: GrpcClient, call: GrpcCall, request: ReceiveMessageRequest) -> None:
        try:
            check_room(call)
            header, topic = self._pop_header(client, request, call)
            waiting = _Receive(self, call, client, self._clients.receiver(client), header, topic, request.auto_renew)
            call.on_closed = waiting.given_up
            waiting.caller.ask(RequestCode.POP_MESSAGE, header, b"", waiting.answered)
        except MQError as error:
            self.finish(call, status_of_error(error))

    def rest(self, client: GrpcClient, caller: Caller) -> None:
        self._clients.rest(client, caller)

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

    def deliver_later(self, receive: _Receive, result: PopResult) -> None:
        """This connection was given enough for one loop iteration: deliver in a later one."""
        task = asyncio.get_running_loop().create_task(self._deliver_in_turn(receive, result))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    @staticmethod
    async def _deliver_in_turn(receive: _Receive, result: PopResult) -> None:
        await receive.call.connection.turns.have()
        receive.deliver(result)

    def deliver(self, receive: _Receive, result: PopResult) -> None:
        """Send what was popped; what has no room, or no reader any more, is given back."""
        call, renewals = receive.call, receive.client.renewals
        if not call.is_open:
            self.give_back(receive, receipts_of(result))
            return
        call.send(_OK_RESPONSE)
        before, count = call.unsent_messages, result.count
        responses = self._encoded(receive, result)
        if responses is not None:
            call.send_all(responses)
        else:
            count = self._send_each(receive, result)
        if receive.renew or count < result.count or call.unsent_messages > before:
            receipts = receipts_of(result)
            self.give_back(receive, receipts[count:])
            if receive.renew:
                now_ms, header = self._ground.clock.monotonic_ms(), receive.header
                for receipt in receipts[:count]:
                    renewals.keep(header.consumer_group, header.topic, receipt.text(), now_ms)
            if call.unsent_messages > before:
                call.on_closed = partial(self._unsent, receive, receipts[:count])
        call.send(ReceiveMessageResponse(delivery_timestamp=time_of(self._ground.clock.now_ms())).encode())
        call.finish()

    def _encoded(self, receive: _Receive, result: PopResult) -> list[bytes] | None:
        """All messages by the compiled core; None when that leaves them to Python, or they may be more than fits."""
        size = sum(portion.size_bytes for portion in result.portions)
        if self._deliveries is None or size > room_bytes(receive.call) or is_dead_letters(receive.topic):
            return None
        topic, found = receive.topic.encode(), list[bytes]()
        for portion in result.portions:
            before = result.receipt(portion, 0).text()[:-1].encode()  # up to the offset
            encoded = self._deliveries.responses(list(portion.runs), topic, before, result.invisible_ms)
            if encoded is None or None in encoded or len(encoded) != len(portion.offsets):
                return None
            found += encoded  # type: ignore[arg-type]  # none is missing
        return found

    def _send_each(self, receive: _Receive, result: PopResult) -> int:
        """Send the messages one by one, and say how many had room."""
        room, receipts = Room(receive.call), receipts_of(result)
        for index, (record, receipt) in enumerate(zip(records_of(result), receipts, strict=True)):
            delivery = Delivery(receive.topic, receipt.text(), record.delivery_attempt + 1, receipt.invisible_ms)
            message = delivered(record, delivery)
            if not room.has(message):
                return index
            receive.call.send(ReceiveMessageResponse(message=message).encode())
        return len(receipts)

    def _unsent(self, receive: _Receive, receipts: list[Receipt]) -> None:
        """The client gave up while messages waited for its window: the last ones never left."""
        count = max(0, receive.call.unsent_messages - 1)  # behind them is the time of delivery
        if count:
            self.give_back(receive, receipts[-count:])

    def give_back(self, receive: _Receive, receipts: list[Receipt]) -> None:
        header = receive.header
        self._settling.give_back(receive.client, header.consumer_group, header.topic, receipts)

    def finish(self, call: GrpcCall, status: Status) -> None:
        """Answer with a status, and no message."""
        call.send(ReceiveMessageResponse(status=status).encode())
        call.send(ReceiveMessageResponse(delivery_timestamp=time_of(self._ground.clock.now_ms())).encode())
        call.finish()


class _Receive:
    """A receive that waits: there may be thousands, so it is small."""

    __slots__ = ("_receiving", "call", "caller", "client", "header", "renew", "topic")

    def __init__(
        self,
        receiving: Receiving,
        call: GrpcCall,
        client: GrpcClient,
        caller: Caller,
        header: PopHeader,
        topic: Resource,
        renew: bool,
    ) -> None:
        self._receiving = receiving
        self.call = call
        self.client = client
        self.caller = caller
        self.header = header
        self.topic = topic
        self.renew = renew

    def given_up(self) -> None:
        """Its client does not wait any longer: nothing is handed out for it."""
        self.caller.close("the client gave up")

    def answered(self, answer: Received[Any] | ConnectionLostError) -> None:
        receiving, call = self._receiving, self.call
        call.on_closed = None
        if isinstance(answer, ConnectionLostError):
            receiving.finish(call, status_of_error(answer))
            return
        receiving.rest(self.client, self.caller)
        if answer.code:
            receiving.finish(call, status_of_response(answer))
            return
        if call.connection.turns.is_spent:
            receiving.deliver_later(self, answer.header)
        else:
            self.deliver(answer.header)

    def deliver(self, result: PopResult) -> None:
        receiving, call = self._receiving, self.call
        try:
            receiving.deliver(self, result)
        except MQError as error:
            receiving.finish(call, status_of_error(error))
        except Exception as error:  # a defect of ours ends one call
            logger.exception("receive failed: group=%s peer=%s", self.header.consumer_group, call.peer)
            text = f"the broker failed on this request: {type(error).__name__}"
            receiving.finish(call, status_of(StatusCode.INTERNAL_SERVER_ERROR, text))


def receipts_of(result: PopResult) -> list[Receipt]:
    """Receipts of all messages, in their order."""
    return [result.receipt(portion, offset) for portion in result.portions for offset in portion.offsets]


def records_of(result: PopResult) -> Iterator[Record]:
    """Records of all messages, in their order."""
    for portion in result.portions:
        yield from split_records(b"".join(portion.runs))


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
