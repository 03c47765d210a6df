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

from msgspec import structs

from pyromq.broker.dispatching.caller import Caller
from pyromq.broker.grpc.clients import GrpcClient, GrpcClients
from pyromq.broker.grpc.ground import FrontGround
from pyromq.broker.grpc.messages import (
    BODY_BYTES_MAX,
    OWN_PROPERTIES,
    Delivery,
    Room,
    check_room,
    delivered,
    is_dead_letters,
    room_bytes,
)
from pyromq.broker.grpc.names import group_name, topic_name
from pyromq.broker.grpc.polling import SHORTEST_MS, polling_ms
from pyromq.broker.grpc.renewals import FIRST_MS
from pyromq.broker.grpc.rpc import read_message
from pyromq.broker.grpc.settling import Settling
from pyromq.broker.grpc.statuses import StatusError, status_of_error, status_of_response
from pyromq.broker.popping.calls import COUNT_MAX, Bytes, PopRequest, PopResult
from pyromq.broker.popping.plans import INVISIBLE_MS_MAX, PopPlan
from pyromq.broker.popping.pop_requests import MissedPop
from pyromq.broker.popping.receipts import Receipt
from pyromq.compiled_core import core
from pyromq.errors import ConnectionLostError, MQError
from pyromq.net.http2 import CallMethod, GrpcCall, Http2Connection
from pyromq.net.http2.call import RESPONSE_HEAD, TRAILERS_OK
from pyromq.wire.codes import RequestCode
from pyromq.wire.grpc.codes import FilterKind, StatusCode
from pyromq.wire.grpc.definitions import FilterExpression, Resource, Status, status_of, time_of
from pyromq.wire.grpc.framing import timeout_ms, with_prefix, without_prefixes
from pyromq.wire.grpc.services import ReceiveMessageRequest, ReceiveMessageResponse
from pyromq.wire.headers.pop import PopHeader
from pyromq.wire.received import Received
from pyromq.wire.record import Record, split_records

logger = logging.getLogger(__name__)

INVISIBLE_MS_MIN: Final = 10_000
_NEWEST: Final = 1
_KNOWN_MAX: Final = 1_024  # requests
_KNOWN_BYTES_MAX: Final = 512
_OK_RESPONSE: Final = ReceiveMessageResponse(status=status_of(StatusCode.OK)).encode()
_OK_PREFIXED: Final = with_prefix(_OK_RESPONSE)


class Receiving:
    """Answers one RPC."""

    def __init__(self, ground: FrontGround, clients: GrpcClients, settling: Settling) -> None:
        self._ground = ground
        self._clients = clients
        self._settling = settling
        self._deliveries = core.Deliveries(sorted(OWN_PROPERTIES)) if core is not None else None
        self._tasks: set[asyncio.Task[None]] = set()  # those that wait for a turn
        self._known: dict[bytes, _Request] = {}  # a consumer asks with the same bytes, again and again

    def receive(self, call: GrpcCall, data: bytes) -> None:
        """Answered when there is something, or when its time is over; nothing waits in a task for that."""
        request = self._read(data)
        try:
            client = self._clients.of(call)
        except MQError as error:
            self.finish(call, status_of_error(error))
        else:
            self._wait(client, call, request)

    def receive_taken(
        self, connection: Http2Connection, client: GrpcClient, stream_id: int, timeout: bytes, data: bytes
    ) -> None:
        """``receive`` of a client that is known, for a call that the lane took; at once if there is something."""
        request = self._known.get(data)
        plan: PopPlan | None = None
        result: PopResult | None = None
        if request is not None and (pop := self._plain_pop(connection, client, request, timeout)) is not None:
            lane = self._ground.pop_lane(client.caller)
            if lane is not None:
                self._ground.hand_over()  # what came before it
                try:
                    plan, result = lane.pop(client.caller, pop)
                except MQError:  # it goes the way of requests, where it meets the same
                    pass
        if result is not None and request is not None and self._respond_at_once(connection, stream_id, request, result):
            return
        serve = partial(self._receive_of, client, plan, result)
        connection.serve_taken(CallMethod(serve), stream_id, timeout, data)

    def _plain_pop(
        self, connection: Http2Connection, client: GrpcClient, request: _Request, timeout: bytes
    ) -> PopRequest | None:
        """The pop of a receive that need not wait for anything; None: that has to be looked at."""
        if connection.turns.is_spent or connection.room_bytes < BODY_BYTES_MAX:
            return None
        pop = request.plain_pop(client.namespace, self._ground.settings.name)
        left_ms = timeout_ms(timeout)
        if pop is None or (left_ms is not None and left_ms <= SHORTEST_MS):
            return None
        config = self._ground.tables.groups.table.get(pop.group)
        return pop if config is not None and not config.consume_message_orderly else None

    def _respond_at_once(
        self, connection: Http2Connection, stream_id: int, request: _Request, result: PopResult
    ) -> bool:
        """A whole response by the compiled core; False when that leaves it to Python, or it may be more than fits."""
        portions = self._portions(connection, request, result)
        if portions is None or self._deliveries is None:
            return False
        ends = (_OK_PREFIXED, self._ground.clock.now_ms())
        blocks, room = (RESPONSE_HEAD, TRAILERS_OK), connection.taken_room
        topic, invisible_ms = request.topic_bytes, result.invisible_ms
        found = self._deliveries.response(portions, topic, invisible_ms, stream_id, ends, blocks, room)
        if found is None:
            return False
        connection.answer_received(*found)
        return True

    def _receive_of(
        self, client: GrpcClient, missed: PopPlan | None, result: PopResult | None, call: GrpcCall, data: bytes
    ) -> None:
        """``receive`` of a client that is known; ``missed`` or ``result`` if it has looked for messages already."""
        request = self._read(data)
        if result is None:
            self._wait(client, call, request, missed)
            return
        header = self._pop_header(client, request, call)
        _Receive(self, call, client, client.caller, header, request).deliver(result)

    def _read(self, data: bytes) -> _Request:
        """The request that these bytes are. Raises GrpcError."""
        known = self._known.get(data)
        if known is None:
            known = _Request(read_message(ReceiveMessageRequest, data))
            if known.message.attempt_id is None and len(data) <= _KNOWN_BYTES_MAX:
                if len(self._known) >= _KNOWN_MAX:
                    self._known.clear()
                self._known[data] = known
        return known

    def _wait(self, client: GrpcClient, call: GrpcCall, request: _Request, missed: PopPlan | None = None) -> None:
        try:
            check_room(call)
            header = self._pop_header(client, request, call)
            if missed is not None:
                header = MissedPop(**structs.asdict(header), plan=missed)
            waiting = _Receive(self, call, client, self._clients.receiver(client), header, request)
            call.on_closed = waiting.given_up
            self._ground.ask(waiting.caller, RequestCode.POP_MESSAGE, header, waiting.answered)
        except MQError as error:
            self.finish(call, status_of_error(error))

    def rest(self, client: GrpcClient, caller: Caller) -> None:
        self._clients.rest(client, caller)

    def _pop_header(self, client: GrpcClient, request: _Request, call: GrpcCall) -> PopHeader:
        """Build the pop request of a receive. Raises StatusError."""
        group, topic = request.names(client.namespace, self._ground.settings.name)
        self._ground.topic(topic, client.session)
        config = self._ground.tables.groups.table.get(group)
        message, (expression, kind) = request.message, request.expression
        return PopHeader(
            consumer_group=group,
            topic=topic,
            queue_id=-1,
            max_msg_nums=min(message.batch_size, COUNT_MAX),
            invisible_time=_invisible_ms(message),
            poll_time=polling_ms(message.long_polling_timeout, call, client, self._ground.clock.monotonic_ms()),
            init_mode=_NEWEST,
            exp=expression,
            exp_type=kind,
            order=True if config is not None and config.consume_message_orderly else None,
            attempt_id=message.attempt_id,
        )

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
        call, count = receive.call, result.count
        if not call.is_open:
            self.give_back(receive, receipts_of(result))
            return
        messages = self._encoded(call.connection, receive.request, result)
        if messages is None:
            messages, count = self._encoded_each(receive, result)
        end = self._end()
        is_sent = call.respond_with(b"".join((_OK_PREFIXED, messages, with_prefix(end))))
        waits = not is_sent and self._send_each(call, messages)
        if receive.renew or count < result.count or waits:
            receipts = receipts_of(result)
            self.give_back(receive, receipts[count:])
            if receive.renew:
                self._keep_renewing(receive, receipts[:count])
            if waits:
                call.on_closed = partial(self._unsent, receive, receipts[:count])
        if not is_sent:
            call.send(end)
            call.finish()

    def _end(self) -> bytes:
        """The last message of a response."""
        return ReceiveMessageResponse(delivery_timestamp=time_of(self._ground.clock.now_ms())).encode()

    def _keep_renewing(self, receive: _Receive, receipts: list[Receipt]) -> None:
        now_ms, header = self._ground.clock.monotonic_ms(), receive.header
        for receipt in receipts:
            receive.client.renewals.keep(header.consumer_group, header.topic, receipt.text(), now_ms)

    def _encoded(self, connection: Http2Connection, request: _Request, result: PopResult) -> bytes | None:
        """All messages by the compiled core; None when that leaves them to Python, or they may be more than fits."""
        portions = self._portions(connection, request, result)
        if portions is None or self._deliveries is None:
            return None
        return self._deliveries.messages(portions, request.topic_bytes, result.invisible_ms)

    def _portions(
        self, connection: Http2Connection, request: _Request, result: PopResult
    ) -> list[tuple[list[Bytes], bytes, int]] | None:
        """What was popped, as the compiled core wants it; None when it is Python's."""
        if self._deliveries is None or request.is_of_dead_letters:
            return None
        size, portions = 0, []
        for portion in result.portions:
            size += portion.size_bytes
            before = result.receipt(portion, 0).text_before_offset.encode()
            portions.append((list(portion.runs), before, len(portion.offsets)))
        return portions if size <= room_bytes(connection) else None

    @staticmethod
    def _encoded_each(receive: _Receive, result: PopResult) -> tuple[bytes, int]:
        """Encode as many messages as there is room for; returns them, and how many these are."""
        room, receipts, found = Room(receive.call), receipts_of(result), list[bytes]()
        for record, receipt in zip(records_of(result), receipts, strict=True):
            delivery = Delivery(receive.topic, receipt.text(), record.delivery_attempt + 1, receipt.invisible_ms)
            message = delivered(record, delivery)
            if not room.has(message):
                break
            found.append(with_prefix(ReceiveMessageResponse(message=message).encode()))
        return b"".join(found), len(found)

    @staticmethod
    def _send_each(call: GrpcCall, messages: bytes) -> bool:
        """Send the messages one by one, and say whether some wait for a window."""
        call.send(_OK_RESPONSE)
        before = call.unsent_messages
        for message in without_prefixes(messages):
            call.send(message)
        return call.unsent_messages > before

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
        call.send(self._end())
        call.finish()


class _Request:
    """A request that was read, and what follows from it alone."""

    __slots__ = ("_checked", "_pop", "expression", "is_of_dead_letters", "message", "topic", "topic_bytes")

    def __init__(self, message: ReceiveMessageRequest) -> None:
        self.message = message
        self.expression = expression_of(message.filter_expression)
        self.topic = (message.message_queue.topic if message.message_queue else None) or Resource()
        self.topic_bytes = self.topic.encode()
        self.is_of_dead_letters = is_dead_letters(self.topic)
        self._checked: tuple[str, str, str] | None = None  # a namespace, and names of group and topic in it
        self._pop: tuple[str, PopRequest] | None = None  # a namespace, and the pop in it

    def names(self, namespace: str, broker: str) -> tuple[str, str]:
        """Group and topic as the broker knows them. Raises StatusError for what no broker of that name can serve."""
        if self._checked is None or self._checked[0] != namespace:
            queue, count = self.message.message_queue, self.message.batch_size
            topic = topic_name(queue.topic if queue else None, namespace)
            group = group_name(self.message.group, namespace)
            wanted = queue.broker.name if queue and queue.broker else ""
            if wanted and wanted != broker:
                text = f"broker {wanted} is not here, this is {broker}; query the route again"
                raise StatusError(StatusCode.BAD_REQUEST, text)
            if count < 1:
                text = f"a receive asks for 1 to {COUNT_MAX} messages, not {count}"
                raise StatusError(StatusCode.BAD_REQUEST, text)
            self._checked = namespace, group, topic
        return self._checked[1:]

    def plain_pop(self, namespace: str, broker: str) -> PopRequest | None:
        """The pop of a receive that is refused nothing, and renews nothing."""
        if self._pop is None or self._pop[0] != namespace:
            if self.message.auto_renew:
                return None
            try:
                group, topic = self.names(namespace, broker)
                invisible_ms = _invisible_ms(self.message)
            except StatusError:
                return None
            expression, kind = self.expression
            pop = PopRequest(
                group=group,
                topic=topic,
                count=min(self.message.batch_size, COUNT_MAX),
                invisible_ms=invisible_ms,
                newest=True,
                expression=expression,
                expression_type=kind,
            )
            self._pop = namespace, pop
        return self._pop[1]


class _Receive:
    """A receive that waits: there may be thousands, so it is small."""

    __slots__ = ("_receiving", "call", "caller", "client", "header", "request")

    def __init__(
        self,
        receiving: Receiving,
        call: GrpcCall,
        client: GrpcClient,
        caller: Caller,
        header: PopHeader,
        request: _Request,
    ) -> None:
        self._receiving = receiving
        self.call = call
        self.client = client
        self.caller = caller
        self.header = header
        self.request = request

    @property
    def topic(self) -> Resource:
        return self.request.topic

    @property
    def renew(self) -> bool:
        return self.request.message.auto_renew

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
