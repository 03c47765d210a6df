"""Which name server is asked."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from pyromq.client.core.nameservers import NameServers
from pyromq.client.core.signing import Signer
from pyromq.errors import ClientClosedError, ConnectFailedError, NameServersUnreachableError
from pyromq.net.nameserver_list import REFRESH_MS, NameServerList
from pyromq.testing import ManualClock
from pyromq.wire.received import Received
from tests.unit.client.core.doubles import FakeLink


class Unshuffled(Random):
    def sample(self, population: Any, k: int, **options: Any) -> list[Any]:  # type: ignore[override]
        return list(population)[:k]


def nameservers_of(links: list[FakeLink], known: NameServerList | None = None) -> NameServers:
    clock = ManualClock()
    known = known or NameServerList([str(link.address) for link in links], clock=clock)
    by_address = {str(link.address): link for link in links}
    return NameServers(known, lambda text: by_address[text], Signer(None), clock, Unshuffled())  # type: ignore[arg-type, return-value]


def test_the_next_name_server_is_asked_when_one_fails_and_kept_from_then_on() -> None:
    async def main() -> None:
        links = [FakeLink("a:1", fails=True), FakeLink("b:2"), FakeLink("c:3")]
        servers = nameservers_of(links)
        for _ in range(3):
            assert (await servers.route("t", timeout_ms=3_000)).broker_datas
        assert [link.asked for link in links] == [1, 3, 0]
        assert links[0].timeouts == [1_000]  # a third each, so that some is left for the others
        for link in links:
            link.fails = True
        with pytest.raises(NameServersUnreachableError) as caught:
            await servers.route("t", timeout_ms=3_000)
        assert [address for address, _ in caught.value.failures] == ["b:2", "c:3", "a:1"]

    asyncio.run(main())


def test_a_changed_list_of_name_servers_is_used_by_the_client_that_runs() -> None:
    async def main() -> None:
        clock, lists = ManualClock(), ["a:1;b:2", "b:2;c:3"]

        async def fetch(url: str) -> str:
            if not lists:
                raise ConnectFailedError("down", peer=url)
            return lists.pop(0)

        links = [FakeLink("a:1"), FakeLink("b:2"), FakeLink("c:3", fails=True)]
        servers = nameservers_of(links, NameServerList(["http://list.example"], clock=clock, fetch=fetch))
        assert servers.links == ()
        assert (await servers.route("t", timeout_ms=3_000)).broker_datas, "the list is asked for when it is needed"
        assert [link.asked for link in links] == [1, 0, 0]
        clock.advance_ms(REFRESH_MS)
        await servers.refresh()
        assert [str(link.address) for link in servers.links] == ["b:2", "c:3"]
        assert servers.links[0] is links[1] and [link.is_closed for link in links] == [True, False, False]  # type: ignore[comparison-overlap]
        links[1].fails = True
        with pytest.raises(NameServersUnreachableError) as caught:
            await servers.route("t", timeout_ms=3_000)
        assert [address for address, _ in caught.value.failures] == ["b:2", "c:3"]

        empty = nameservers_of([], NameServerList(["http://list.example"], clock=clock, fetch=fetch))
        with pytest.raises(NameServersUnreachableError, match=r"http://list\.example:8080/rocketmq/nsaddr: down"):
            await empty.route("t", timeout_ms=3_000)

    asyncio.run(main())


def test_a_name_server_that_leaves_the_list_while_it_is_asked_is_no_failure() -> None:
    async def main() -> None:
        clock, lists = ManualClock(), ["a:1", "b:2"]

        async def fetch(url: str) -> str:
            return lists.pop(0)

        leaving, staying = FakeLink("a:1"), FakeLink("b:2")
        servers = nameservers_of([leaving, staying], NameServerList(["http://l"], clock=clock, fetch=fetch))

        async def end(*_: Any, **__: Any) -> Received[Any]:
            clock.advance_ms(REFRESH_MS)
            await servers.refresh()
            raise ClientClosedError("the link to a:1 was closed")

        leaving.request = end  # type: ignore[method-assign]
        assert (await servers.route("t", timeout_ms=3_000)).broker_datas
        assert staying.asked == 1

    asyncio.run(main())
