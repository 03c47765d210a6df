"""What a replica asks its master in a round of metadata: run-time information only when nothing cheaper is known."""

from __future__ import annotations

import asyncio
from typing import Any, cast
from unittest.mock import Mock

import msgspec

from pyromq.broker.replicating.master_calls import MasterCalls
from pyromq.net.link import Link
from pyromq.wire.codes import RequestCode as Code
from pyromq.wire.codes import ResponseCode
from pyromq.wire.json.membership import BrokerStatus, MemberRole

RUNTIME = b'{"table":{"commitLogMinOffset":"0","commitLogMaxOffset":"700"}}'


class _Master:
    """A link that answers, and remembers what was asked."""

    def __init__(self, *, managed: bool) -> None:
        self.asked: list[int] = []
        self._managed = managed

    async def request(self, code: Code, *_: Any, **__: Any) -> Mock:
        self.asked.append(code)
        return Mock(code=ResponseCode.SUCCESS, body=self._body(code))

    def _body(self, code: Code) -> bytes:
        if code == Code.GET_BROKER_RUNTIME_INFO:
            return RUNTIME
        if code == Code.QUERY_MEMBER:
            status = BrokerStatus(
                address="127.0.0.1:10911",
                name="a",
                cluster="c",
                role=MemberRole.MASTER,
                number=1,
                log_number=1,
                epochs=(),
                end=900,
                flushed=900,
                metadata=3,
                managed=self._managed,
            )
            return msgspec.json.encode(status)
        return b"{}"

    async def close(self) -> None:
        """It is."""


def test_a_member_under_an_agent_is_asked_for_its_status() -> None:
    ends, asked = asyncio.run(_two_rounds(_Master(managed=True)))
    assert ends == [(700, 700), (900, 900)]
    assert asked.count(Code.GET_BROKER_RUNTIME_INFO) == 2, "only before it was known to be a member"


def test_any_other_master_is_asked_for_its_run_time_information() -> None:
    ends, asked = asyncio.run(_two_rounds(_Master(managed=False)))
    assert ends == [(700, 700), (700, 700)]
    assert asked.count(Code.GET_BROKER_RUNTIME_INFO) == 4


async def _two_rounds(master: _Master) -> tuple[list[tuple[int, int]], list[int]]:
    """What rounds before and after the master was asked what it is say of its log."""
    calls = MasterCalls(lambda address: cast(Link, master))
    await calls.at("127.0.0.1:10911")
    first = await calls.tables()
    await calls.member()
    second = await calls.tables()
    return [(each.log_start, each.log_end) for each in (first, second)], master.asked


def test_topics_and_groups_of_a_member_are_asked_for_when_something_has_changed() -> None:
    async def asked(known: tuple[int, int], *, managed: bool = True) -> tuple[bool, tuple[int, int]]:
        master = _Master(managed=managed)
        calls = MasterCalls(lambda address: cast(Link, master))
        await calls.at("127.0.0.1:10911")
        await calls.member()
        tables = await calls.tables(known)
        assert (tables.topics is None) is (tables.groups is None) is (Code.GET_ALL_TOPIC_CONFIG not in master.asked)
        return tables.topics is not None, (tables.lease, tables.number)

    assert asyncio.run(asked((1, 3))) == (False, (1, 3))
    assert asyncio.run(asked((1, 2))) == (True, (1, 3))
    assert asyncio.run(asked((2, 3))) == (True, (1, 3)), "numbers of two masters are not compared"
    assert asyncio.run(asked((0, 0), managed=False)) == (True, (0, 0)), "who has no number is asked every time"
