"""Consumer and producer groups: their configuration, and the clients that are connected."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from pyromq.client.admin.base import AdminBase
from pyromq.errors import BrokerError, GroupNotFoundError, GroupOfflineError
from pyromq.model.names import validate_group
from pyromq.model.topic import GroupConfig
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.headers.admin import DeleteGroupHeader, GroupHeader, ProducerGroupHeader
from pyromq.wire.headers.shared import ConsumerGroupHeader
from pyromq.wire.json import bodies, java_json
from pyromq.wire.json.heartbeat import ClientConnection as ClientConnection
from pyromq.wire.json.heartbeat import ConsumerConnections, ProducerConnections, decode_consumer_connections


class GroupTable(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The groups of a broker (RocketMQ: SubscriptionGroupWrapper)."""

    subscription_group_table: dict[str, GroupConfig] = {}


class GroupAdmin(AdminBase):
    """Of ``Admin``: groups."""

    async def groups(self) -> list[str]:
        """All consumer groups that brokers have a configuration of, those of the system included."""
        code = RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG
        responses = await self._ask_all(await self._masters(), code)
        tables = [java_json.decode(response.body, GroupTable).subscription_group_table for response in responses]
        return sorted({self.client.plain_name(name) for table in tables for name in table})

    async def create_group(self, group: GroupConfig | str, *, cluster: str = "", broker: str = "") -> None:
        """Creates or changes a consumer group. Raises InvalidNameError."""
        config = GroupConfig(group_name=group) if isinstance(group, str) else group
        name = self.client.wire_name(validate_group(config.group_name))
        body = java_json.dumps(msgspec.structs.replace(config, group_name=name))
        masters = await self._masters(cluster, broker)
        await self._ask_all(masters, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, body)

    async def delete_group(
        self, group: str, *, clean_offsets: bool = True, cluster: str = "", broker: str = ""
    ) -> None:
        """Deletes a consumer group; with ``clean_offsets`` it would start anew if it came back."""
        header = DeleteGroupHeader(group_name=self.client.wire_name(group), clean_offset=clean_offsets)
        await self._ask_all(await self._masters(cluster, broker), RequestCode.DELETE_SUBSCRIPTIONGROUP, header)

    async def require_group(self, group: str) -> None:
        """Raises GroupNotFoundError. Asks for all: to be asked about one is enough for a broker to create it."""
        if group not in await self.groups():
            raise _no_group(group)

    async def group_config(self, group: str) -> GroupConfig:
        """As the first broker that knows the group has it, or makes it up. Raises GroupNotFoundError."""
        header = GroupHeader(group=self.client.wire_name(group))
        for address in await self._masters():
            try:
                response = await self._ask(address, RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, header)
            except GroupNotFoundError:
                continue
            return java_json.decode(response.body, GroupConfig)
        raise _no_group(group)

    async def group_connections(self, group: str) -> ConsumerConnections:
        """The consumers of a group and what they subscribe. Raises GroupOfflineError."""
        header = ConsumerGroupHeader(consumer_group=self.client.wire_name(group))
        found: list[ConsumerConnections] = []
        for address in await self._masters():
            try:
                response = await self._ask(address, RequestCode.GET_CONSUMER_CONNECTION_LIST, header)
            except GroupOfflineError:
                continue
            found.append(decode_consumer_connections(response.body))
        if not found:
            text = f"no consumer of group {group} is connected"
            raise GroupOfflineError(code=ResponseCode.CONSUMER_NOT_ONLINE, remark=text)
        return msgspec.structs.replace(found[0], connection_set=_distinct(found))

    async def producer_connections(self, group: str) -> tuple[ClientConnection, ...]:
        """The producers of a group that are connected."""
        header = ProducerGroupHeader(producer_group=self.client.wire_name(group))
        found = []
        for address in await self._masters():
            try:
                response = await self._ask(address, RequestCode.GET_PRODUCER_CONNECTION_LIST, header)
            except BrokerError as error:
                if error.code != ResponseCode.SYSTEM_ERROR:  # that is how a broker says "none"
                    raise
            else:
                found.append(bodies.decode(response.body, ProducerConnections))
        return _distinct(found)


def _distinct(found: Iterable[ConsumerConnections | ProducerConnections]) -> tuple[ClientConnection, ...]:
    """Each client once, though it is connected to every broker."""
    by_id = {client.client_id: client for connections in found for client in connections.connection_set}
    return tuple(by_id[client_id] for client_id in sorted(by_id))


def _no_group(group: str) -> GroupNotFoundError:
    return GroupNotFoundError(code=ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark=f"no broker has a group {group}")
