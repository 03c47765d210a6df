"""What a replica asks its master in a round of metadata: no more than what has changed, where the master can tell."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from pyromq.broker.admin.member_tables import TEXT_BYTES_MAX
from pyromq.broker.replicating.master_calls import MasterCalls, MasterRefusedError
from pyromq.errors import ConnectionLostError
from pyromq.wire.codes import RequestCode as Code
from pyromq.wire.codes import ResponseCode
from pyromq.wire.json.membership import SMALL_TABLES
from tests.unit.broker.replicating.answering_master import ADDRESS, AnsweringMaster, offsets

T = TypeVar("T")
KNOWN = (1, 3)  # lease and number of the master
LARGE = offsets(7, count=TEXT_BYTES_MAX // 4)
ONE_BY_ONE = [Code.QUERY_MEMBER, *SMALL_TABLES, Code.QUERY_MEMBER]


def asking(master: AnsweringMaster, story: Callable[[MasterCalls], Awaitable[T]]) -> T:
    async def run() -> T:
        return await story(await master.calls())

    return asyncio.run(run())


# --- log ends ---


@pytest.mark.parametrize(("managed", "end"), [(True, 900), (False, 700)])
def test_run_time_information_is_asked_for_only_when_nothing_cheaper_is_known(managed: bool, end: int) -> None:
    master = AnsweringMaster(managed=managed)

    async def story(calls: MasterCalls) -> None:
        tables = await calls.tables(KNOWN)
        assert (tables.log_start, tables.log_end) == (end, end)

    asking(master, story)
    assert master.asked.count(Code.GET_BROKER_RUNTIME_INFO) == (0 if managed else 2)
    assert (Code.QUERY_MEMBER_TABLES in master.asked) is managed


def test_a_master_that_has_not_said_what_it_is_is_asked_as_any_other() -> None:
    master = AnsweringMaster()

    async def story(calls: MasterCalls) -> None:
        await calls.close()
        await calls.at(ADDRESS)
        tables = await calls.tables(KNOWN)
        assert (tables.log_start, tables.lease, tables.number) == (700, 0, 0)

    asking(master, story)
    assert Code.QUERY_MEMBER_TABLES not in master.asked and Code.GET_ALL_TOPIC_CONFIG in master.asked


# --- topics and groups ---


@pytest.mark.parametrize("knows_all", [True, False])
def test_topics_and_groups_of_a_member_are_asked_for_when_something_has_changed(knows_all: bool) -> None:
    def asked(known: tuple[int, int], *, managed: bool = True) -> tuple[bool, tuple[int, int]]:
        master = AnsweringMaster(managed=managed, knows_all=knows_all)
        tables = asking(master, lambda calls: calls.tables(known))
        assert (tables.topics is None) is (tables.groups is None) is (Code.GET_ALL_TOPIC_CONFIG not in master.asked)
        return tables.topics is not None, (tables.lease, tables.number)

    assert asked((1, 3)) == (False, (1, 3))
    assert asked((1, 2)) == (True, (1, 3))
    assert asked((2, 3)) == (True, (1, 3)), "numbers of two masters are not compared"
    assert asked((0, 0), managed=False) == (True, (0, 0)), "who has no number is asked every time"


def test_small_tables_are_newer_than_topics_and_topics_newer_than_the_first_log_end() -> None:
    master = AnsweringMaster()

    def moves_on(code: Code) -> None:
        if code == Code.GET_ALL_TOPIC_CONFIG:
            master.end, master.metadata, master.tables[Code.GET_ALL_CONSUMER_OFFSET] = 1_000, 4, offsets(8)

    master.before = moves_on
    tables = asking(master, lambda calls: calls.tables((1, 2)))
    assert (tables.log_start, tables.log_end, tables.number) == (900, 1_000, 3)
    assert tables.offsets == offsets(8)
    topics = [Code.GET_ALL_TOPIC_CONFIG, Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG]
    assert master.asked == [Code.QUERY_MEMBER_TABLES, *topics, Code.QUERY_MEMBER_TABLES]


# --- small tables ---


def test_a_round_is_one_request_and_brings_every_table_as_requests_for_each_alone_do() -> None:
    at_once, one_by_one = AnsweringMaster(), AnsweringMaster(knows_all=False)

    async def story(calls: MasterCalls) -> list[object]:
        return [await calls.tables(KNOWN) for _ in range(3)]

    assert asking(at_once, story) == asking(one_by_one, story)
    assert at_once.asked == [Code.QUERY_MEMBER_TABLES] * 3
    assert one_by_one.asked == [Code.QUERY_MEMBER_TABLES, *ONE_BY_ONE * 3], "it is tried once"


def test_of_tables_only_the_changed_one_travels() -> None:
    master = AnsweringMaster()

    async def story(calls: MasterCalls) -> None:
        before = await calls.tables(KNOWN)
        master.tables[Code.GET_ALL_CONSUMER_OFFSET] = offsets(8)
        after = await calls.tables(KNOWN)
        assert after == before._replace(offsets=offsets(8))
        assert after.timer_check is before.timer_check, "as it was: the same text, and not another one like it"

    asking(master, story)
    assert master.asked == [Code.QUERY_MEMBER_TABLES] * 2


def test_a_large_table_is_asked_for_by_itself_when_it_has_changed() -> None:
    master = AnsweringMaster()
    master.tables[Code.GET_ALL_CONSUMER_OFFSET] = LARGE

    def moves_on(code: Code) -> None:
        master.end += code == Code.GET_ALL_CONSUMER_OFFSET

    async def story(calls: MasterCalls) -> None:
        master.before = moves_on
        for _ in range(2):
            tables = await calls.tables(KNOWN)
            assert tables.offsets == LARGE
        alone = [Code.GET_ALL_CONSUMER_OFFSET, Code.QUERY_MEMBER]
        assert master.asked == [Code.QUERY_MEMBER_TABLES, *alone, Code.QUERY_MEMBER_TABLES]
        master.tables[Code.GET_ALL_CONSUMER_OFFSET] = LARGE.replace(b":7", b":8")
        tables = await calls.tables(KNOWN)
        assert tables.offsets == LARGE.replace(b":7", b":8")
        assert tables.log_start < tables.log_end == master.end, "what it speaks of lies before the log end"

    asking(master, story)


def test_a_table_that_the_master_does_not_have_is_empty_and_comes_when_it_is_there() -> None:
    master = AnsweringMaster()
    text = master.tables.pop(Code.GET_ALL_DELAY_OFFSET)

    async def story(calls: MasterCalls) -> None:
        assert (await calls.tables(KNOWN)).delay_offsets == b""
        master.tables[Code.GET_ALL_DELAY_OFFSET] = text
        master.asked.clear()
        assert (await calls.tables(KNOWN)).delay_offsets == text
        assert master.asked == [Code.QUERY_MEMBER_TABLES]
        del master.tables[Code.GET_ALL_DELAY_OFFSET]
        assert (await calls.tables(KNOWN)).delay_offsets == b""

    asking(master, story)


def test_offsets_that_the_master_refuses_end_the_round() -> None:
    master = AnsweringMaster()
    del master.tables[Code.GET_ALL_CONSUMER_OFFSET]
    with pytest.raises(MasterRefusedError, match="GET_ALL_CONSUMER_OFFSET"):
        asking(master, lambda calls: calls.tables(KNOWN))


# --- masters that do not answer it ---


def test_an_older_master_is_not_asked_again_until_it_is_followed_anew() -> None:
    master = AnsweringMaster(knows_all=False)

    async def story(calls: MasterCalls) -> None:
        await calls.tables(KNOWN)
        await calls.tables(KNOWN)
        assert master.asked.count(Code.QUERY_MEMBER_TABLES) == 1
        master.refusals.clear()
        await calls.member()
        master.asked.clear()
        await calls.tables(KNOWN)
        assert master.asked == [Code.QUERY_MEMBER_TABLES], "it was started anew, with a version that knows it"
        await calls.at("127.0.0.1:10912")
        await calls.member()
        await calls.tables(KNOWN)

    asking(master, story)
    assert master.asked[-1] == Code.QUERY_MEMBER_TABLES, "another master was not asked yet"


def test_a_master_that_is_busy_is_asked_for_each_table_and_tried_again() -> None:
    master = AnsweringMaster()
    master.refusals[Code.QUERY_MEMBER_TABLES] = ResponseCode.SYSTEM_BUSY

    async def story(calls: MasterCalls) -> None:
        assert (await calls.tables(KNOWN)).offsets == offsets(7)
        assert master.asked == [Code.QUERY_MEMBER_TABLES, *ONE_BY_ONE]
        master.refusals.clear()
        await calls.tables(KNOWN)
        assert master.asked[-1] == Code.QUERY_MEMBER_TABLES

    asking(master, story)


@pytest.mark.parametrize("lost_at", [Code.QUERY_MEMBER_TABLES, Code.GET_ALL_CONSUMER_OFFSET, Code.QUERY_MEMBER])
def test_a_connection_that_is_lost_in_between_changes_nothing(lost_at: Code) -> None:
    master = AnsweringMaster()
    master.tables[Code.GET_ALL_CONSUMER_OFFSET] = LARGE

    async def story(calls: MasterCalls) -> None:
        before = await calls.tables(KNOWN)
        newer = {Code.GET_ALL_CONSUMER_OFFSET: LARGE.replace(b":7", b":8"), Code.GET_TIMER_METRICS: b"{}"}
        master.tables.update(newer)
        master.is_lost_at = lost_at
        with pytest.raises(ConnectionLostError):
            await calls.tables(KNOWN)
        master.is_lost_at = None
        after = await calls.tables(KNOWN)
        assert after == before._replace(offsets=LARGE.replace(b":7", b":8"), timer_metrics=b"{}")

    asking(master, story)
