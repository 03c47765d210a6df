"""The name servers of a client: one is asked until it fails, then the next.

Which ones there are may change while the client runs, if an address server says so.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from random import Random
from typing import Any, Final

from pyromq.client.core.errors import error_of
from pyromq.client.core.signing import Signer
from pyromq.clock import Clock
from pyromq.errors import (
    ClientClosedError,
    ConnectFailedError,
    MQError,
    NameServersUnreachableError,
    TopicNotFoundError,
    TransportError,
    WrongServerError,
)
from pyromq.model.route import TopicRoute
from pyromq.net import Link
from pyromq.net.nameserver_list import NameServerList
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.command import Ext
from pyromq.wire.headers.nameserver import GetRouteHeader, NamespaceHeader
from pyromq.wire.json import bodies
from pyromq.wire.json.route import decode_cluster, decode_route
from pyromq.wire.received import Received

logger = logging.getLogger(__name__)

_ALL_SERVE: Final = (  # every name server does, and no broker
    RequestCode.GET_ROUTEINFO_BY_TOPIC,
    RequestCode.GET_BROKER_CLUSTER_INFO,
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
)


class NameServers:
    """All of them know the same, sooner or later, so any one will do. ``links`` stand in the order to try."""

    def __init__(
        self, known: NameServerList, open_link: Callable[[str], Link], signer: Signer, clock: Clock, rng: Random
    ) -> None:
        self._known = known
        self._open_link = open_link
        self._signer = signer
        self._clock = clock
        self._rng = rng
        self.links: tuple[Link, ...] = ()
        self._current = 0
        self._adopt()

    async def close(self) -> None:
        await asyncio.gather(*(link.close() for link in self.links))

    async def refresh(self) -> None:
        """Ask the address server, if there is one and it is time. Raises ConnectFailedError if no address is known."""
        if await self._known.refresh():
            for link in self._adopt():
                await link.close()

    def _adopt(self) -> list[Link]:
        """Use the addresses that are known now, links to those that stay included; close the links returned."""
        before = {str(link.address): link for link in self.links}
        addresses = self._rng.sample(self._known.addresses, len(self._known.addresses))
        self.links = tuple(before.get(text) or self._open_link(text) for text in addresses)
        self._current = 0
        return [link for link in before.values() if link not in self.links]

    async def ask(self, code: RequestCode, header: Ext = None, body: bytes = b"", *, timeout_ms: int) -> Received[Any]:
        """The response of the first that gives one, whatever its code.

        A silent server gets its share of the time, so that there is some left for the others.
        Raises NameServersUnreachableError, WrongServerError.
        """
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        failures: list[tuple[str, MQError]] = []
        if not self.links:
            await self._find_some()
        ext = self._signer.signed(header, body)
        tried: set[Link] = set()
        while untried := self._untried(tried):
            link = untried[0]
            share_ms = max(1, (deadline_ms - self._clock.monotonic_ms()) // len(untried))
            tried.add(link)
            try:
                response = await link.request(code, ext, body, timeout_ms=share_ms)
                if response.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED and code in _ALL_SERVE:
                    raise WrongServerError(str(link.address))
                return response
            except ClientClosedError:
                if link in self.links:
                    raise
                logger.debug("name server left the list while it was asked: address=%s", link.address)
            except TransportError as error:
                failures.append((str(link.address), error))
                logger.info("name server failed: address=%s error=%s", link.address, error)
                if link in self.links:
                    self._current = (self.links.index(link) + 1) % len(self.links)
        raise NameServersUnreachableError(failures)

    def _untried(self, tried: set[Link]) -> list[Link]:
        """The others, from the current one on; links may have come and gone while one was asked."""
        rotated = (*self.links[self._current :], *self.links[: self._current])
        return [link for link in rotated if link not in tried]

    async def _find_some(self) -> None:
        try:
            await self.refresh()
        except ConnectFailedError as error:
            raise NameServersUnreachableError([(self._known.url, error)]) from error

    async def knows_no_broker(self, *, timeout_ms: int) -> bool:
        """Whether a name server says that no broker is registered; False where none says anything of the kind."""
        try:
            response = await self.ask(RequestCode.GET_BROKER_CLUSTER_INFO, timeout_ms=timeout_ms)
            return response.code == ResponseCode.SUCCESS and not decode_cluster(response.body).broker_addr_table
        except MQError as error:
            logger.debug("no list of brokers: error=%s", error)
            return False

    async def route(self, topic: str, *, timeout_ms: int) -> TopicRoute:
        """Ask for the route of a topic. Raises what ``ask`` raises, TopicNotFoundError, BrokerError,
        RemoteProtocolError.
        """
        header = GetRouteHeader(topic=topic, accept_standard_json_only=True)
        response = await self.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, header, timeout_ms=timeout_ms)
        if response.code != ResponseCode.SUCCESS:
            raise error_of(response, topic=topic)
        route = decode_route(response.body) if response.body else TopicRoute()
        if not route.broker_datas:
            raise TopicNotFoundError(topic)
        return route

    async def kv(self, namespace: str, *, timeout_ms: int) -> dict[str, str]:
        """What one name server keeps under a namespace; nothing if there is none. Raises what ``ask`` raises,
        BrokerError.
        """
        header = NamespaceHeader(namespace=namespace)
        response = await self.ask(RequestCode.GET_KVLIST_BY_NAMESPACE, header, timeout_ms=timeout_ms)
        if response.code == ResponseCode.QUERY_NOT_FOUND:
            return {}
        if response.code != ResponseCode.SUCCESS:
            raise error_of(response)
        return bodies.decode(response.body, bodies.KeyValues).table
