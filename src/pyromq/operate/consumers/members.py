"""Connected clients: producers, consumers and what they say about themselves, one message tried by a member."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import msgspec

from pyromq.client.admin.broker_requests import ProducerInfo
from pyromq.client.admin.requests import AdminRequests
from pyromq.client.consumer.base.consume_stats import TopicRates
from pyromq.client.consumer.base.running_info import HeadOfLine, QueueInfo, flow_counts, heads_of_line
from pyromq.client.core.tasks import gather
from pyromq.errors import GroupOfflineError, MQError, TransportError
from pyromq.model.queue import QueueId
from pyromq.operate.consumers.direct_consumption import DirectConsumption, read_direct_consumption
from pyromq.operate.consumers.group_configs import require_group
from pyromq.operate.consumers.used_settings import SettingsInUse, settings_of_member
from pyromq.operate.reading.stored_messages import StoredMessages
from pyromq.wire.codes import ResponseCode
from pyromq.wire.headers.shared import ConsumeDirectlyHeader
from pyromq.wire.json import java_json
from pyromq.wire.json.heartbeat import ClientConnection, ConsumerConnections, ProducerConnections, Subscription
from pyromq.wire.json.subscribed import Wish, wish_of


class ClientState(msgspec.Struct, frozen=True, kw_only=True):
    """What one member of a group says about itself; ``problem`` instead when it did not answer.

    ``subscriptions`` are topics with their expressions, without the retry topic; ``rates`` are by topic. ``flow`` and
    ``heads`` are told by PyroMQ's clients: how often flow control held pulls back, by rule, and what holds queues up.
    ``uses`` are settings of its own.
    """

    client_id: str
    queues: dict[QueueId, QueueInfo] = {}
    heads: tuple[HeadOfLine, ...] = ()
    subscriptions: Wish = frozenset()
    rates: dict[str, TopicRates] = {}
    flow: dict[str, int] = {}
    uses: SettingsInUse = SettingsInUse()
    problem: str = ""


class MemberFacet:
    """``admin.members``: consumers and producers that are connected."""

    def __init__(self, requests: AdminRequests, stored: StoredMessages) -> None:
        self._requests = requests
        self._client = requests.client
        self._stored = stored

    async def connections(self, group: str) -> ConsumerConnections:
        """Return the consumers of a group and what they subscribe to. Raises GroupOfflineError."""
        found = await self.connections_if_any(group)
        if found is None:
            raise _offline(f"no consumer of group {group} is connected")
        return found

    async def connections_if_any(self, group: str) -> ConsumerConnections | None:
        """Return the same; None for a group without connected consumers.

        Members are connected to all brokers that they know, so one that is away is not missed while another knows them.
        Raises MQError where that may be the only one.
        """
        name, found, away = self._client.wire_name(group), list[ConsumerConnections](), list[TransportError]()
        for address in await self._requests.directory.masters():
            try:
                found.append(await self._requests.brokers.consumer_connections(address, name))
            except GroupOfflineError:
                continue
            except TransportError as error:
                away.append(error)
        if away and not found:
            raise away[0]
        return msgspec.structs.replace(found[0], connection_set=_distinct(found)) if found else None

    async def states(self, group: str) -> list[ClientState]:
        """Return what each connected consumer of a group says; empty when none is connected."""
        connections = await self.connections_if_any(group)
        members = [connection.client_id for connection in connections.connection_set] if connections else []
        return list(await asyncio.gather(*[self._state(group, client_id) for client_id in members]))

    async def _state(self, group: str, client_id: str) -> ClientState:
        try:
            return read_client_state(client_id, await self.running_info(group, client_id))
        except MQError as error:
            return ClientState(client_id=client_id, problem=str(error))

    async def stack(self, group: str, client_id: str) -> str:
        """Return the stacks of all threads (and of PyroMQ's clients all tasks) of a member.

        Raises BrokerError when no broker is connected with it, or it does not tell.
        """
        fields = java_json.parse(await self.running_info(group, client_id, with_stack=True))
        return str((fields.get("jstack") if isinstance(fields, dict) else None) or "")

    async def running_info(self, group: str, client_id: str, *, with_stack: bool = False) -> bytes:
        """Return the JSON that a member tells about itself (RocketMQ: ConsumerRunningInfo).

        The first broker that is connected with it passes it on. Raises MQError.
        """
        problem: MQError = _offline(f"no broker is connected with {client_id}")
        name, brokers = self._client.wire_name(group), self._requests.brokers
        for address in await self._requests.directory.masters():
            try:
                return await brokers.running_info(address, name, client_id, with_stack=with_stack)
            except MQError as error:
                problem = error
        raise problem

    async def consume_directly(
        self, group: str, message_id: str, *, topic: str = "", client_id: str = ""
    ) -> DirectConsumption:
        """Let a member of the group consume a message now, whatever its progress; nothing is committed or retried.

        ``message_id`` is an offset id, or with ``topic`` either id. Without ``client_id`` the first member by name does
        it. Raises NotFoundError, MalformedMessageIdError, GroupNotFoundError, GroupOfflineError when no such member is
        connected, BrokerError when the member does not answer.
        """
        found = await (self._stored.get(topic, message_id) if topic else self._stored.by_offset_id(message_id))
        await require_group(self._requests, group)
        members = [member.client_id for member in (await self.connections(group)).connection_set]
        chosen = client_id or members[0]
        if chosen not in members:
            raise _offline(f"group {group} has no member {chosen}; there are: {', '.join(members)}")
        header = ConsumeDirectlyHeader(
            consumer_group=self._client.wire_name(group),
            client_id=chosen,
            msg_id=found.offset_message_id,
            broker_name=found.queue.broker,
            topic=found.stored_topic,
        )
        body = await self._requests.brokers.consume_directly(found.queue.broker, header)
        return read_direct_consumption(body, found.message_id, group, chosen)

    async def producers(self, broker: str = "") -> dict[str, list[ProducerInfo]]:
        """Return the producers that are connected, by group, each once though it is connected to every broker.

        Of one broker (its name, or its address) if it is given.
        """
        masters, found = await self._requests.directory.masters(broker=broker), dict[str, dict[str, ProducerInfo]]()
        for answer in await gather([self._requests.brokers.producers(address) for address in masters]):
            for group, members in answer.items():
                by_id = found.setdefault(self._client.plain_name(group), {})
                by_id.update((member.client_id, member) for member in members)
        return {group: [members[each] for each in sorted(members)] for group, members in sorted(found.items())}

    async def producers_of(self, group: str) -> tuple[ClientConnection, ...]:
        """Return the producers of a group that are connected."""
        name, masters = self._client.wire_name(group), await self._requests.directory.masters()
        answers = await gather([self._requests.brokers.producer_connections(address, name) for address in masters])
        return _distinct(each for each in answers if each is not None)


def read_client_state(client_id: str, body: bytes) -> ClientState:
    """Read what a member says about itself. Raises RemoteProtocolError."""
    fields = java_json.parse(body)
    table = fields.get("mqTable") or {}
    queues = java_json.convert({queue_key(key): value for key, value in table.items()}, dict[QueueId, QueueInfo])
    subscriptions = wish_of(java_json.convert(fields.get("subscriptionSet") or [], list[Subscription]))
    return ClientState(
        client_id=client_id,
        queues=queues,
        heads=tuple(heads_of_line(body)),
        subscriptions=subscriptions,
        rates=java_json.convert(fields.get("statusTable") or {}, dict[str, TopicRates]),
        flow={hold.name: count for hold, count in flow_counts(body).items() if count},
        uses=settings_of_member(fields.get("properties") or {}),
    )


def queue_key(key: object) -> object:
    return java_json.ObjectKey(java_json.parse(key)) if isinstance(key, str) and key.startswith("{") else key


def _distinct(found: Iterable[ConsumerConnections | ProducerConnections]) -> tuple[ClientConnection, ...]:
    """Return each client once, though it is connected to every broker."""
    by_id = {client.client_id: client for connections in found for client in connections.connection_set}
    return tuple(by_id[client_id] for client_id in sorted(by_id))


def _offline(text: str) -> GroupOfflineError:
    return GroupOfflineError(code=ResponseCode.CONSUMER_NOT_ONLINE, remark=text)
