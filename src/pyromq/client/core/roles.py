"""Roles: the producers and consumers that share a client, each in its group.

A role tells the client what belongs into heartbeats and which topics' routes to keep fresh, and is told what brokers
ask of its group:

    code  method of the role                         of
    39    check_transaction(message, header, link)   producers of the message's PGROUP, until one says that it answers
    326   reply_arrived(message)                     every producer, until one says that it waited for it
    40    members_changed()                          the consumer of that group
    220   reset_offsets(header, offsets)             the consumer of that group
    221   offsets(topic)                             the consumer of that group
    307   running_info(header)                       the consumer of that group
    309   consume_directly(header, message)          the consumer of that group; a coroutine

A consumer subclasses ``ConsumerRole``, calls ``client.join(self)`` when it starts and ``await client.leave(self)`` when
it ends. After its subscriptions changed it calls ``await client.heartbeat_now()``: brokers must know them before it
pulls. Methods are called on the client's loop and must not block; ``route_changed`` gets every new route of a topic in
``topics()``, whole. Names are those on the wire, with namespace.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from pyromq.client.core.received_message import ReceivedMessage
from pyromq.errors import ConfigError
from pyromq.model.queue import QueueId
from pyromq.model.route import TopicRoute
from pyromq.wire.headers.callback import CheckTransactionHeader
from pyromq.wire.headers.shared import ConsumeDirectlyHeader, ConsumerRunningInfoHeader, ResetOffsetHeader
from pyromq.wire.json.heartbeat import ConsumerData, Heartbeat, ProducerData

if TYPE_CHECKING:
    from pyromq.net import Connection


class ClientRole:
    """What producers and consumers have in common."""

    def __init__(self, group: str) -> None:
        self.group = group  # as servers know it

    def topics(self) -> Collection[str]:
        """Topics whose routes the client shall keep fresh."""
        return ()

    def route_changed(self, topic: str, route: TopicRoute) -> None:
        """A topic got a new route."""


class ProducerRole(ClientRole):
    """Sends in the name of a group."""

    def check_transaction(
        self, message: ReceivedMessage, header: CheckTransactionHeader, connection: Connection
    ) -> bool:
        """A broker asks how a transaction ended; END_TRANSACTION reports it. False: it will not come."""
        return False

    def reply_arrived(self, message: ReceivedMessage) -> bool:
        """A reply to a request; False if it was not asked here."""
        return False


class ConsumerRole(ClientRole):
    """Consumes as a member of a group."""

    def heartbeat_data(self) -> ConsumerData:
        """What the group subscribes, asked for at every heartbeat; nothing, unless a subclass knows better."""
        return ConsumerData(group_name=self.group)

    def members_changed(self) -> None:
        """A member joined or left the group: share the queues anew."""

    def reset_offsets(self, header: ResetOffsetHeader, offsets: Mapping[QueueId, int]) -> None:
        """An operator wants the group to go on somewhere else."""

    def offsets(self, topic: str) -> Mapping[QueueId, int]:
        """Where this member is in the queues of a topic that it owns."""
        return {}

    def running_info(self, header: ConsumerRunningInfoHeader) -> bytes:
        """JSON for an operator (RocketMQ: ConsumerRunningInfo)."""
        return b"{}"

    async def consume_directly(self, header: ConsumeDirectlyHeader, message: ReceivedMessage) -> bytes:
        """Hand one message to the listener; JSON of the outcome (RocketMQ: ConsumeMessageDirectlyResult)."""
        raise ConfigError(f"group {self.group} has no listener that could be handed a message")


def heartbeat_of(client_id: str, roles: Iterable[ClientRole]) -> Heartbeat | None:
    """What a client tells brokers of itself; None while it has no role."""
    roles = list(roles)
    producers = sorted({role.group for role in roles if isinstance(role, ProducerRole)})
    consumers = sorted((role for role in roles if isinstance(role, ConsumerRole)), key=lambda role: role.group)
    if not producers and not consumers:
        return None
    return Heartbeat(
        client_id=client_id,
        producer_data_set=tuple(ProducerData(group_name=group) for group in producers),
        consumer_data_set=tuple(consumer.heartbeat_data() for consumer in consumers),
    )
