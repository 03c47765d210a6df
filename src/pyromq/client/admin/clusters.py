"""Brokers: their settings, and what they are doing."""

from __future__ import annotations

import msgspec

from pyromq.client.admin.base import AdminBase
from pyromq.errors import BrokerError, ConfigError
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.json import bodies
from pyromq.wire.json.membership import BrokerStatus
from pyromq.wire.json.store_facts import StoreFacts


class ClusterAdmin(AdminBase):
    """Of ``Admin``: clusters and brokers."""

    async def broker_config(self, broker: str) -> dict[str, str]:
        """The configuration of a broker (its name, or its address) in RocketMQ's words."""
        response = await self._ask(await self._address(broker), RequestCode.GET_BROKER_CONFIG)
        return settings_in(response.body)

    async def update_broker_config(self, broker: str, values: dict[str, str]) -> None:
        """Raises ConfigError for what cannot be written as ``key=value``."""
        await self._ask(await self._address(broker), RequestCode.UPDATE_BROKER_CONFIG, None, settings_text(values))

    async def broker_runtime(self, broker: str) -> dict[str, str]:
        """What a broker (its name, or its address) is doing."""
        response = await self._ask(await self._address(broker), RequestCode.GET_BROKER_RUNTIME_INFO)
        return bodies.decode(response.body, bodies.KeyValues).table

    async def store_facts(self, broker: str) -> StoreFacts | None:
        """Segments, disk, retention and last recovery of a broker (its name, or its address).

        None for Apache RocketMQ, which tells nothing of the kind.
        """
        try:
            response = await self._ask(await self._address(broker), RequestCode.QUERY_STORE_FACTS)
        except BrokerError as error:
            if error.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                return None
            raise
        return msgspec.json.decode(response.body, type=StoreFacts)

    async def member(self, broker: str) -> BrokerStatus | None:
        """Role, lease, positions and replicas of a broker (its name: of its master; or its address).

        None for Apache RocketMQ, which tells nothing of the kind.
        """
        try:
            response = await self._ask(await self._address(broker), RequestCode.QUERY_MEMBER)
        except BrokerError as error:
            if error.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                return None
            raise
        return msgspec.json.decode(response.body, type=BrokerStatus)


def settings_text(values: dict[str, str]) -> bytes:
    """As servers take settings, a line each. Raises ConfigError."""
    for key, value in values.items():
        if not key or any(character in key + value for character in "\r\n") or "=" in key:
            raise ConfigError(f"setting {key!r} cannot be written as one line key=value")
    return "".join(f"{key}={value}\n" for key, value in values.items()).encode()


def settings_in(body: bytes) -> dict[str, str]:
    """What servers tell of their settings."""
    lines = (line.partition("=") for line in body.decode("utf-8", "replace").splitlines())
    return {key.strip(): value.strip() for key, equals, value in lines if equals}
