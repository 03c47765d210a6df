"""The name servers of a client: one is asked until it fails, then the next."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from pyromq.client.errors import NameServersUnreachableError, TopicNotFoundError, error_of
from pyromq.client.signing import Signer
from pyromq.clock import Clock
from pyromq.errors import MQError, TransportError
from pyromq.model.route import TopicRoute
from pyromq.net import Link
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.command import Ext
from pyromq.wire.headers.nameserver import GetRouteHeader
from pyromq.wire.received import Received
from pyromq.wire.route import decode_route

logger = logging.getLogger(__name__)


class NameServers:
    """All of them know the same, sooner or later, so any one will do. ``links`` come in the order to try."""

    def __init__(self, links: Sequence[Link], signer: Signer, clock: Clock) -> None:
        self.links = tuple(links)
        self._signer, self._clock = signer, clock
        self._current = 0

    async def close(self) -> None:
        for link in self.links:
            await link.close()

    async def ask(self, code: RequestCode, header: Ext = None, body: bytes = b"", *, timeout_ms: int) -> Received[Any]:
        """The answer of the first that gives one, whatever its code.

        A silent server gets its share of the time, so that there is some left for the others.
        Raises NameServersUnreachableError.
        """
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        failures: list[tuple[str, MQError]] = []
        ext, count = self._signer.signed(header, body), len(self.links)
        for left in range(count, 0, -1):
            link = self.links[self._current]
            share_ms = max(1, (deadline_ms - self._clock.monotonic_ms()) // left)
            try:
                return await link.request(code, ext, body, timeout_ms=share_ms)
            except TransportError as error:
                failures.append((str(link.address), error))
                self._current = (self._current + 1) % count
                logger.info("name server failed: address=%s error=%s", link.address, error)
        raise NameServersUnreachableError(failures)

    async def route(self, topic: str, *, timeout_ms: int) -> TopicRoute:
        """Raises NameServersUnreachableError, TopicNotFoundError, BrokerError, RemoteProtocolError."""
        header = GetRouteHeader(topic=topic, accept_standard_json_only=True)
        answer = await self.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, header, timeout_ms=timeout_ms)
        if answer.code != ResponseCode.SUCCESS:
            raise error_of(answer, topic=topic)
        route = decode_route(answer.body) if answer.body else TopicRoute()
        if not route.broker_datas:
            raise TopicNotFoundError(topic)
        return route
