"""Brokers as routes report them: which addresses a broker has, and one link to each address."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from pyromq.model.route import MASTER_ID, TopicRoute
from pyromq.net import Link


class Brokers:
    """``open_link(address)`` makes a link, which connects when it is first used."""

    def __init__(self, open_link: Callable[[str], Link]) -> None:
        self._open_link = open_link
        self._addresses: dict[str, dict[int, str]] = {}  # by broker name, then by id
        self._links: dict[str, Link] = {}

    def learn(self, route: TopicRoute) -> None:
        for broker in route.broker_datas:
            if broker.broker_addrs:
                self._addresses[broker.broker_name] = dict(broker.broker_addrs)

    def names(self) -> list[str]:
        return sorted(self._addresses)

    def address(self, name: str, broker_id: int = MASTER_ID) -> str | None:
        return self._addresses.get(name, {}).get(broker_id)

    def readable_address(self, name: str) -> str | None:
        """The master's, or else that of the replica with the lowest id."""
        addresses = self._addresses.get(name)
        return addresses[min(addresses)] if addresses else None

    def addresses(self, *, masters_only: bool) -> list[str]:
        """Addresses of all known brokers."""
        return sorted(
            {
                address
                for by_id in self._addresses.values()
                for broker_id, address in by_id.items()
                if broker_id == MASTER_ID or not masters_only
            }
        )

    def link(self, address: str) -> Link:
        link = self._links.get(address)
        if link is None:
            link = self._links[address] = self._open_link(address)
        return link

    def ready_links(self) -> list[Link]:
        return [link for link in self._links.values() if link.ready is not None]

    def forget_unrouted(self, routes: Iterable[TopicRoute]) -> list[Link]:
        """Drops brokers that no route names any more; close the links that are returned."""
        before = set(self.addresses(masters_only=False))
        current: dict[str, dict[int, str]] = {}
        for route in routes:
            for broker in route.broker_datas:
                current[broker.broker_name] = dict(broker.broker_addrs)
        self._addresses = {name: self._addresses.get(name, addresses) for name, addresses in current.items()}
        gone = before - set(self.addresses(masters_only=False))
        return [self._links.pop(address) for address in sorted(gone) if address in self._links]

    async def close(self) -> None:
        links = list(self._links.values())
        self._links.clear()
        await asyncio.gather(*(link.close() for link in links))
