"""Brokers: their settings, and what they are doing."""

from __future__ import annotations

from pyromq.client.admin.base import AdminBase
from pyromq.errors import ConfigError
from pyromq.wire.codes import RequestCode
from pyromq.wire.json import bodies


class ClusterAdmin(AdminBase):
    """Of ``Admin``: clusters and brokers."""

    async def broker_config(self, broker: str) -> dict[str, str]:
        """The configuration of a broker (its name, or its address) in RocketMQ's words."""
        response = await self._ask(await self._address(broker), RequestCode.GET_BROKER_CONFIG)
        lines = (line.partition("=") for line in response.body.decode("utf-8", "replace").splitlines())
        return {key.strip(): value.strip() for key, equals, value in lines if equals}

    async def update_broker_config(self, broker: str, values: dict[str, str]) -> None:
        for key, value in values.items():
            if not key or any(character in key + value for character in "\r\n") or "=" in key:
                raise ConfigError(f"setting {key!r} cannot be written as one line key=value")
        body = "".join(f"{key}={value}\n" for key, value in values.items()).encode()
        await self._ask(await self._address(broker), RequestCode.UPDATE_BROKER_CONFIG, None, body)

    async def broker_runtime(self, broker: str) -> dict[str, str]:
        """What a broker (its name, or its address) is doing."""
        response = await self._ask(await self._address(broker), RequestCode.GET_BROKER_RUNTIME_INFO)
        return bodies.decode(response.body, bodies.KeyValues).table
