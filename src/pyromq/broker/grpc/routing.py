"""Routes and assignments: which queues a topic has here, what they take, and where clients reach them."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Final

from pyromq.broker.grpc.clients import GrpcClient
from pyromq.broker.grpc.ground import FrontGround
from pyromq.broker.grpc.messages import accepted_kinds
from pyromq.broker.grpc.names import group_name, topic_name
from pyromq.broker.grpc.statuses import StatusError
from pyromq.model.topic import Perm, TopicConfig
from pyromq.net.address import Address
from pyromq.net.http2 import GrpcCall
from pyromq.net.own_ip import is_ip
from pyromq.wire.grpc.codes import AddressScheme, QueuePermission, StatusCode
from pyromq.wire.grpc.definitions import (
    Assignment,
    EndpointAddress,
    Endpoints,
    MessageQueue,
    Resource,
    RouteBroker,
    status_of,
)
from pyromq.wire.grpc.services import (
    QueryAssignmentRequest,
    QueryAssignmentResponse,
    QueryRouteRequest,
    QueryRouteResponse,
)

ANY_QUEUE: Final = -1
_READ, _WRITE = int(Perm.READ), int(Perm.WRITE)


class Routing:
    """QueryRoute and QueryAssignment."""

    def __init__(self, ground: FrontGround) -> None:
        self._ground = ground

    async def route(self, client: GrpcClient, request: QueryRouteRequest, call: GrpcCall) -> QueryRouteResponse:
        name = topic_name(request.topic, client.namespace)
        config = self._ground.topic(name, client.session)
        broker = self._broker(request.endpoints)
        kinds = [int(kind) for kind in accepted_kinds(config.attributes)]
        queues = [
            MessageQueue(topic=request.topic, id=number, permission=perm, broker=broker, accept_message_types=kinds)
            for number, perm in enumerate(permissions(config))
        ]
        return QueryRouteResponse(status=status_of(StatusCode.OK), message_queues=queues)

    async def assignment(
        self, client: GrpcClient, request: QueryAssignmentRequest, call: GrpcCall
    ) -> QueryAssignmentResponse:
        """Every member gets every queue: popping shares them. In order mode each queue stands by itself."""
        group = group_name(request.group, client.namespace)
        config = self._ground.topic(topic_name(request.topic, client.namespace), client.session)
        if not config.perm & _READ or not config.read_queue_nums:
            raise StatusError(StatusCode.FORBIDDEN, f"topic {config.topic_name} has no queue that can be read")
        known = self._ground.tables.groups.table.get(group)
        is_ordered = known is not None and known.consume_message_orderly
        numbers = range(config.read_queue_nums) if is_ordered else (ANY_QUEUE,)
        broker = self._broker(request.endpoints)
        assignments = [Assignment(message_queue=_readable(request.topic, number, broker)) for number in numbers]
        return QueryAssignmentResponse(status=status_of(StatusCode.OK), assignments=assignments)

    def _broker(self, asked: Endpoints | None) -> RouteBroker:
        """One address is where the client has reached us, through whatever stands in between: it stays that."""
        is_good = asked is not None and len(asked.addresses) == 1 and asked.scheme and asked.addresses[0].port > 0
        endpoints = asked if is_good else endpoints_of(self._ground.address)
        return RouteBroker(name=self._ground.settings.name, id=0, endpoints=endpoints)


def _readable(topic: Resource | None, number: int, broker: RouteBroker) -> MessageQueue:
    return MessageQueue(topic=topic, id=number, permission=QueuePermission.READ_WRITE, broker=broker)


def permissions(config: TopicConfig) -> list[QueuePermission]:
    """Permission of each queue by its number: first those that can only be read, then only written, then both."""
    reads = config.read_queue_nums if config.perm & _READ else 0
    writes = config.write_queue_nums if config.perm & _WRITE else 0
    if not reads and not writes:
        return [QueuePermission.NONE]
    both = min(reads, writes)
    alone = QueuePermission.READ if reads > writes else QueuePermission.WRITE
    return [alone] * (max(reads, writes) - both) + [QueuePermission.READ_WRITE] * both


def endpoints_of(address: Address) -> Endpoints:
    if not is_ip(address.host):
        scheme = AddressScheme.DOMAIN_NAME
    else:
        scheme = AddressScheme.IPV4 if ip_address(address.host).version == 4 else AddressScheme.IPV6
    return Endpoints(scheme=scheme, addresses=[EndpointAddress(host=address.host, port=address.port)])
