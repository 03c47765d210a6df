"""PullMessage, GetOffset, UpdateOffset, QueryOffset: reading a queue by positions, as broadcasting consumers do.

They are in the API, and no other server answers them.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from pyromq.broker.grpc.clients import GrpcClient, GrpcClients
from pyromq.broker.grpc.ground import FrontGround
from pyromq.broker.grpc.messages import Delivery, Room, check_room, delivered
from pyromq.broker.grpc.names import group_name, topic_name
from pyromq.broker.grpc.polling import LONGEST_MS
from pyromq.broker.grpc.receiving import expression_of
from pyromq.broker.grpc.rpc import checked
from pyromq.broker.grpc.statuses import StatusError, status_of_response
from pyromq.broker.popping.calls import COUNT_MAX
from pyromq.net.http2 import GrpcCall
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.flags import PullFlag
from pyromq.wire.grpc.codes import OffsetPolicy, StatusCode
from pyromq.wire.grpc.definitions import MessageQueue, Status, status_of
from pyromq.wire.grpc.protobuf import Proto
from pyromq.wire.grpc.services import (
    GetOffsetRequest,
    OffsetResponse,
    PullMessageRequest,
    PullMessageResponse,
    QueryOffsetRequest,
    StatusResponse,
    UpdateOffsetRequest,
)
from pyromq.wire.headers.consumer import (
    GetMaxOffsetHeader,
    OffsetResponseHeader,
    PullHeader,
    PullResponseHeader,
    QueryConsumerOffsetHeader,
    QueueHeader,
    SearchOffsetHeader,
    UpdateConsumerOffsetHeader,
)
from pyromq.wire.received import Received
from pyromq.wire.record import split_records

_EMPTY: Final = frozenset((ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY))
_OK: Final = status_of(StatusCode.OK)


def failed_pull(request: Any, status: Status) -> list[Proto]:
    return [PullMessageResponse(status=status)]


def failed_offset(request: Any, status: Status) -> list[Proto]:
    return [OffsetResponse(status=status)]


class Positions:
    """Answers four RPCs."""

    def __init__(self, ground: FrontGround, clients: GrpcClients) -> None:
        self._ground = ground
        self._clients = clients

    def _queue(self, client: GrpcClient, queue: MessageQueue | None) -> tuple[str, int]:
        """Read the queue of a request. Raises StatusError."""
        topic = topic_name(queue.topic if queue else None, client.namespace)
        number = queue.id if queue else 0
        config = self._ground.topic(topic, client.session)
        if not 0 <= number < config.read_queue_nums:
            text = f"queue {number} does not exist: topic {topic} has {config.read_queue_nums} here"
            raise StatusError(StatusCode.BAD_REQUEST, text)
        return topic, number

    async def pull(self, client: GrpcClient, request: PullMessageRequest, call: GrpcCall) -> None:
        await call.connection.turns.have()
        check_room(call)
        topic, queue_id = self._queue(client, request.message_queue)
        if request.offset < 0 or request.batch_size < 1:
            text = f"a pull needs an offset of 0 or more and a batch size of 1 or more, not {request.offset} and "
            raise StatusError(StatusCode.ILLEGAL_OFFSET, f"{text}{request.batch_size}")
        expression, kind = expression_of(request.filter_expression)
        wanted_ms = min(LONGEST_MS, request.long_polling_timeout.ms if request.long_polling_timeout else 0)
        flags = PullFlag.SUBSCRIPTION | (PullFlag.SUSPEND if wanted_ms > 0 else 0)
        header = PullHeader(
            consumer_group=group_name(request.group, client.namespace),
            topic=topic,
            queue_id=queue_id,
            queue_offset=request.offset,
            max_msg_nums=min(request.batch_size, COUNT_MAX),
            sys_flag=int(flags),
            commit_offset=0,
            suspend_timeout_millis=max(0, wanted_ms),
            subscription=expression,
            sub_version=0,
            expression_type=kind,
        )
        response = await self._pulled(client, header)
        await call.connection.turns.have()
        self._deliver(call, request, response)

    async def _pulled(self, client: GrpcClient, header: PullHeader) -> Received[Any]:
        caller = self._clients.receiver(client)
        try:
            response = await caller.call(RequestCode.PULL_MESSAGE, header)
        except asyncio.CancelledError:
            caller.close("the client gave up")
            raise
        self._clients.rest(client, caller)
        return response

    def _deliver(self, call: GrpcCall, request: PullMessageRequest, response: Received[Any]) -> None:
        status = status_of_response(response) if response.code else _OK
        call.send(PullMessageResponse(status=status).encode())
        reached: int | None = None  # where the next pull goes on, when it is not behind everything that was found
        if not response.code:
            assert request.message_queue is not None and request.message_queue.topic is not None
            topic, room = Delivery(request.message_queue.topic), Room(call)
            for record in split_records(response.body):
                message = delivered(record, topic)
                if not room.has(message):
                    reached = record.offset
                    break
                call.send(PullMessageResponse(message=message).encode())
        if not response.code or response.code in _EMPTY or response.code == ResponseCode.PULL_OFFSET_MOVED:
            found = response.header_as(PullResponseHeader)
            following = found.next_begin_offset if reached is None else reached
            call.send(PullMessageResponse(next_offset=following).encode())
        call.finish()

    async def get(self, client: GrpcClient, request: GetOffsetRequest, call: GrpcCall) -> OffsetResponse:
        topic, queue_id = self._queue(client, request.message_queue)
        header = QueryConsumerOffsetHeader(
            consumer_group=group_name(request.group, client.namespace),
            topic=topic,
            queue_id=queue_id,
            set_zero_if_not_found=False,
        )
        return await self._offset(client, RequestCode.QUERY_CONSUMER_OFFSET, header)

    async def update(self, client: GrpcClient, request: UpdateOffsetRequest, call: GrpcCall) -> StatusResponse:
        topic, queue_id = self._queue(client, request.message_queue)
        if request.offset < 0:
            raise StatusError(StatusCode.ILLEGAL_OFFSET, f"offset {request.offset} is below 0")
        header = UpdateConsumerOffsetHeader(
            consumer_group=group_name(request.group, client.namespace),
            topic=topic,
            queue_id=queue_id,
            commit_offset=request.offset,
        )
        checked(await client.caller.call(RequestCode.UPDATE_CONSUMER_OFFSET, header))
        return StatusResponse(status=_OK)

    async def query(self, client: GrpcClient, request: QueryOffsetRequest, call: GrpcCall) -> OffsetResponse:
        topic, queue_id = self._queue(client, request.message_queue)
        match request.query_offset_policy:
            case OffsetPolicy.BEGINNING:
                lowest = QueueHeader(topic=topic, queue_id=queue_id)
                return await self._offset(client, RequestCode.GET_MIN_OFFSET, lowest)
            case OffsetPolicy.END:
                highest = GetMaxOffsetHeader(topic=topic, queue_id=queue_id)
                return await self._offset(client, RequestCode.GET_MAX_OFFSET, highest)
            case OffsetPolicy.TIMESTAMP if request.timestamp is not None:
                header = SearchOffsetHeader(topic=topic, queue_id=queue_id, timestamp=request.timestamp.ms)
                return await self._offset(client, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header)
        text = f"policy {request.query_offset_policy} is unknown, or has no timestamp"
        raise StatusError(StatusCode.BAD_REQUEST, text)

    async def _offset(self, client: GrpcClient, code: RequestCode, header: object) -> OffsetResponse:
        response = checked(await client.caller.call(code, header))
        return OffsetResponse(status=_OK, offset=response.header_as(OffsetResponseHeader).offset)
