"""Admin requests: to one server, all masters of a cluster, the brokers of a topic; responses are put together."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any, Final, NoReturn, Self, TypeVar, Unpack

from pyromq.client.core.client import Client
from pyromq.client.core.errors import error_of
from pyromq.client.core.options import ClientOptions, check_options, client_for
from pyromq.client.core.received_message import ReceivedMessage, split_messages
from pyromq.errors import BrokerError, NotFoundError
from pyromq.model.route import TopicRoute
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.command import Ext
from pyromq.wire.json.route import ClusterInfo, decode_cluster
from pyromq.wire.received import Received

T = TypeVar("T")

TIME_MAX: Final = (1 << 63) - 1
_RECENT_MS: Final = 2_000


class AdminBase:
    """``client`` is shared with producers and consumers; without one it has its own.

    Methods raise TransportError when a server cannot be reached, BrokerError when it refuses.
    """

    def __init__(
        self,
        nameservers: str | Sequence[str] = (),
        *,
        client: Client | None = None,
        **options: Unpack[ClientOptions],
    ) -> None:
        check_options("Admin", options, ClientOptions)
        self._owns_client = client is None
        self._addresses: tuple[int, ClusterInfo] | None = None  # when it was asked for, and the response
        self.client = client_for(nameservers, client, options)

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    async def open(self) -> Self:
        if self._owns_client:
            await self.client.open()
        self.client.require_open()
        return self

    async def close(self) -> None:
        if self._owns_client:
            await self.client.close()

    # --- what every noun needs ---

    async def cluster(self) -> ClusterInfo:
        """Every broker with its addresses, and the brokers of each cluster."""
        return decode_cluster((await self._ask_nameserver(RequestCode.GET_BROKER_CLUSTER_INFO)).body)

    async def route(self, topic: str) -> TopicRoute:
        """Where a topic lives, as name servers say now. Raises TopicNotFoundError."""
        name = self.client.wire_name(topic)
        return await self.client.routes.refresh(name, timeout_ms=self.client.settings.request_timeout_ms)

    # --- asking ---

    async def _ask_nameserver(self, code: RequestCode, header: Ext = None) -> Received[Any]:
        self.client.require_open()
        response = await self.client.nameservers.ask(code, header, timeout_ms=self.client.settings.request_timeout_ms)
        if response.code != ResponseCode.SUCCESS:
            raise error_of(response)
        return response

    async def _ask(self, address: str, code: RequestCode, header: Ext = None, body: bytes = b"") -> Received[Any]:
        return await self.client.ask(self.client.brokers.link(address), code, header, body)

    async def _ask_all(
        self, addresses: Iterable[str], code: RequestCode, header: Ext = None, body: bytes = b""
    ) -> list[Received[Any]]:
        return await gather([self._ask(address, code, header, body) for address in addresses])

    async def _ask_brokers_of(self, topic: str, code: RequestCode, header: Ext) -> list[Received[Any]]:
        brokers = (await self.route(topic)).broker_datas
        return await self._ask_all([address for broker in brokers if (address := broker.readable_addr())], code, header)

    async def _masters(self, cluster: str = "", broker: str = "") -> list[str]:
        """Addresses of masters: of one broker, of a cluster, of all. Raises BrokerError if there are none."""
        if broker:
            return [await self._address(broker)]
        info = await self.cluster()
        names = info.cluster_addr_table.get(cluster, []) if cluster else list(info.broker_addr_table)
        found = sorted(
            address
            for name in names
            if name in info.broker_addr_table and (address := info.broker_addr_table[name].master_addr)
        )
        return found or _refuse_without_masters(f"in cluster {cluster}" if cluster else "anywhere")

    async def _named_masters(self) -> dict[str, str]:
        """Addresses of all masters by the names of their brokers. Raises BrokerError if there are none."""
        table = (await self._recent_cluster()).broker_addr_table
        found = {name: address for name in sorted(table) if (address := table[name].master_addr)}
        return found or _refuse_without_masters("anywhere")

    async def _recent_cluster(self) -> ClusterInfo:
        """What name servers said a moment ago: reading a queue needs it for every step."""
        now_ms = self.client.clock.monotonic_ms()
        if self._addresses is None or now_ms - self._addresses[0] > _RECENT_MS:
            self._addresses = now_ms, await self.cluster()
        return self._addresses[1]

    async def _address(self, broker: str) -> str:
        """Of a broker's master by its name; an address stays what it is. Raises NotFoundError."""
        if ":" in broker:
            return broker
        data = (await self._recent_cluster()).broker_addr_table.get(broker)
        if data is None or not (address := data.readable_addr()):
            raise NotFoundError(code=ResponseCode.BROKER_NOT_EXIST, remark=f"name servers know no broker {broker}")
        return address

    def _messages(self, response: Received[Any], broker: str) -> list[ReceivedMessage]:
        return split_messages(response.body, broker, namespace=self.client.settings.namespace)


async def gather(work: list[Coroutine[Any, Any, T]]) -> list[T]:
    """All together; the first failure is raised when all are over."""
    outcomes = await asyncio.gather(*work, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
    return [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]


def _refuse_without_masters(where: str) -> NoReturn:
    raise BrokerError(code=ResponseCode.BROKER_NOT_EXIST, remark=f"no broker with a master {where}")


def no_message(text: str) -> NotFoundError:
    return NotFoundError(code=ResponseCode.NO_MESSAGE, remark=text)
