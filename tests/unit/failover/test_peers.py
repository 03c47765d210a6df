"""Whom an agent asks: everybody that is known when it is in doubt, only those in sync when it takes over."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from pyromq.failover import peers
from pyromq.failover.peers import MemberPeers
from pyromq.failover.record import BrokerStatus, MemberRole
from pyromq.wire.codes import RequestCode

ME, HUNG, THIRD, FOURTH = (f"10.0.0.{number}:10911" for number in (2, 1, 3, 4))
NAMESERVER = "10.0.0.9:9876"


class FakeClient:
    """Answers for the third member, which knows a fourth; a name server knows the master that hangs."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.brokers = SimpleNamespace(link=lambda address: address)

    async def ask(self, link: str, code: RequestCode) -> Any:
        self.asked.append(link)
        if link == NAMESERVER:
            return SimpleNamespace(
                body=b'{"brokerAddrTable":{"a":{"cluster":"c","brokerName":"a","brokerAddrs":{"0":"%s"}}}}'
                % HUNG.encode()
            )
        if link == HUNG:
            await asyncio.get_running_loop().create_future()
        return SimpleNamespace(body=msgspec.json.encode(status(link, members=(THIRD, FOURTH))))


def status(address: str, members: tuple[str, ...] = ()) -> BrokerStatus:
    return BrokerStatus(
        address=address, role=MemberRole.REPLICA, number=3, end=0, metadata=1, name="a", managed=True, members=members,
        nameservers=(NAMESERVER,),
    )  # fmt: skip


def test_who_takes_over_does_not_wait_for_the_master_that_hangs() -> None:
    client = FakeClient()
    census = asyncio.run(MemberPeers(client).census((THIRD,), status(ME), only=True))  # type: ignore[arg-type]
    assert (client.asked, set(census.answers)) == ([THIRD], {THIRD})


def test_who_is_in_doubt_asks_everybody_that_anybody_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "_ASK_S", 0.01)
    client = FakeClient()

    census = asyncio.run(MemberPeers(client).census((THIRD,), status(ME)))  # type: ignore[arg-type]
    assert set(census.answers) == {THIRD, FOURTH}
    assert set(client.asked) == {NAMESERVER, HUNG, THIRD, FOURTH}
