"""The road of docs/how-to/grow.md: a live broker changes its make, both ways; bytes, offsets, what waits move along."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from interop.apache import ApacheBroker
from interop.asking import connected
from interop.conversation import topic_header
from interop.drivers import Drivers
from interop.jars import Jars
from interop.moving import PAGE, Machine, Traffic, commands, hand_over, properties
from interop.pending import collect, leave
from interop.process import Child
from interop.pyromq_server import SMALL_STORE
from interop.tests.conftest import Note, case
from interop.traffic import TOPICS, send_all
from interop.world import until
from pyromq.model.delay_levels import parse_ladder
from pyromq.model.topic import GroupConfig
from pyromq.testing import free_port
from pyromq.wire.codes import RequestCode
from pyromq.wire.headers.consumer import (
    OffsetResponseHeader,
    QueryConsumerOffsetHeader,
    UpdateConsumerOffsetHeader,
)
from pyromq.wire.json import java_json

SECTION = "Moving a live broker"
LATER_S = 60  # messages wait so long that brokers have changed before
LADDER = f"1s {LATER_S}s"
TO_APACHE, BACK = "To Apache's broker", "And back"


def broker_line() -> str:
    """How the page starts the broker that moves."""
    return next(line for line in commands_before() if line.startswith("pyromq broker"))


def small(ladder: str = "") -> list[str]:
    """Files as small as those of Apache's brokers here, so that the log has many."""
    store = SMALL_STORE
    values = {
        "store.segment_bytes": store.segment_bytes,
        "store.queue_file_entries": store.queue_file_entries,
        "store.index_slots": store.index_slots,
        "store.index_entries": store.index_entries,
        "store.body_bytes_max": store.body_bytes_max,
        "store.full_percent": 100,
        "metrics.enabled": "false",
    } | ({"store.delay_ladder_ms": ";".join(map(str, parse_ladder(ladder)))} if ladder else {})
    return [word for name, value in values.items() for word in ("--set", f"broker.{name}={value}")]


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    port = free_port()
    machine = Machine(tmp_path / "machine", f"127.0.0.1:{port}")
    (names,) = [line for line in commands_before() if "nameserver --port" in line]
    child = machine.start(names)
    yield machine
    child.kill()


def commands_before() -> list[str]:
    """Of the beginning of the page: a name server and the broker that moves."""
    return [line for line in PAGE.read_text().partition("\n## ")[0].splitlines() if line.startswith("pyromq ")]


@contextmanager
def running(child: Child) -> Iterator[Child]:
    try:
        yield child
    finally:
        child.kill()


@contextmanager
def apache_broker(jars: Jars, machine: Machine, store: Path, **options: str) -> Iterator[ApacheBroker]:
    told = properties(TO_APACHE)
    keep = {name: told[name] for name in ("brokerClusterName", "brokerName", "brokerId", "brokerRole")}
    port = int(options.pop("port", "") or machine.port("10911"))
    folder = machine.folder / f"apache-{port}"
    broker = ApacheBroker(jars, folder, machine.address("9876"), keep | options, store=store, port=port)
    broker.start()
    try:
        yield broker
    finally:
        broker.kill()


def log_of(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted((folder / "commitlog").iterdir()) if file.name.isdigit())


def same_log(old: Path, new: Path, end: int) -> int:
    """Bytes that both have, up to there."""
    assert end > SMALL_STORE.segment_bytes, "more than one file has moved"
    assert log_of(old)[:end] == log_of(new)[:end]
    return end


def log_end(machine: Machine, name: str) -> int:
    show = next(line for line in commands(TO_APACHE) if "commitLogMaxOffset" in line)
    return machine.number(show.replace("10911", name))


@case("PyroMQ → Apache → PyroMQ under load: nothing lost, same bytes", SECTION)
def test_a_live_broker_moves_to_apache_and_back(machine: Machine, jars: Jars, drivers: Drivers, fact: Note) -> None:
    ours, there, back = (machine.folder / name for name in ("shop", "store", "back"))
    traffic = Traffic(drivers, machine.address("9876"))
    broker = machine.start(broker_line(), *small())
    with running(broker):
        machine.run(f"pyromq mqadmin updateTopic -b 127.0.0.1:10911 -t {traffic.topic} -r 4 -w 4")
        for language in ("java", "pyromq"):
            traffic.sends(language)
            traffic.consumes(language, fails=1)
        for language in ("java", "go", "pyromq"):
            traffic.consumes(language)
        with traffic:
            fill_files(machine)
            asyncio.run(make_tables(machine.address("10911")))
            traffic.flows()
            follow, *steps = commands(TO_APACHE)
            with running(machine.start(follow, says="caught up")) as copy:
                traffic.flows()
                end = hand_over(machine, steps, lambda: log_end(machine, "10911"))
                broker.stop()
                copy.stop()
            moved = same_log(ours, there, end)
            with apache_broker(jars, machine, there) as apache:
                assert asyncio.run(tables_of(apache.address)) == TABLES
                traffic.flows()
                follow, *steps = commands(BACK)
                with running(machine.start(follow, says="caught up")) as copy:
                    traffic.flows()
                    end = hand_over(machine, steps, lambda: log_end(machine, "10911"))
                    apache.stop()
                    machine.wait_for(copy, "master broker=")
                    moved = max(moved, same_log(there, back, end))
                    assert asyncio.run(tables_of(machine.address("10951"))) == TABLES
                    traffic.flows()
                    traffic.__exit__()
                    accounts = traffic.account()
    assert [str(each) for each in accounts if each.lost] == []
    assert traffic.places_shared() == 0
    refused = sum(sender.refused for sender in traffic.senders)
    fact(f"{moved} bytes the same; {refused} sends refused meanwhile; " + "; ".join(map(str, accounts)))


SLEEPER = "sleeper"  # a group of which nobody runs
TABLES = (17, 7, 3)  # its offset, its retries; queues of a topic that nobody uses


async def make_tables(address: str) -> None:
    async with connected(address) as broker:
        offset = UpdateConsumerOffsetHeader(
            consumer_group=SLEEPER, topic=TOPICS[0], queue_id=1, commit_offset=TABLES[0]
        )
        group = java_json.dumps(GroupConfig(group_name=SLEEPER, retry_max_times=TABLES[1]))
        for code, header, body in (
            (RequestCode.UPDATE_CONSUMER_OFFSET, offset, b""),
            (RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, group),
            (RequestCode.UPDATE_AND_CREATE_TOPIC, topic_header("Unused", TABLES[2]), b""),
        ):
            answer = await broker.request(code, header, body, timeout_ms=10_000)
            assert answer.code == 0, answer.remark


async def tables_of(address: str) -> tuple[int, int, int]:
    """The same, as a broker has them."""
    async with connected(address) as broker:
        header = QueryConsumerOffsetHeader(consumer_group=SLEEPER, topic=TOPICS[0], queue_id=1)
        answer = await broker.request(RequestCode.QUERY_CONSUMER_OFFSET, header, timeout_ms=10_000)
        offset = answer.header_as(OffsetResponseHeader).offset
        groups = await broker.request(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, timeout_ms=10_000)
        topics = await broker.request(RequestCode.GET_ALL_TOPIC_CONFIG, timeout_ms=10_000)
    group = java_json.parse(groups.body)["subscriptionGroupTable"][SLEEPER]
    topic = java_json.parse(topics.body)["topicConfigTable"]["Unused"]
    return offset, group["retryMaxTimes"], topic["writeQueueNums"]


def fill_files(machine: Machine) -> None:
    """More than one file of the log, so that the move is not about the last one alone."""
    asyncio.run(send_all(machine.address("10911"), 1_000, "before"))


@case("what waits (level, timer, half) moves to Apache on a copy", SECTION)
def test_what_waits_moves_to_apache(machine: Machine, jars: Jars) -> None:
    broker = machine.start(broker_line(), *small(LADDER))
    with running(broker):
        fill_files(machine)
        pending = asyncio.run(leave(broker_address := machine.address("10911"), LATER_S * 1_000))
        follow, *steps = commands(TO_APACHE)
        with running(machine.start(follow, says="caught up")) as copy:
            hand_over(machine, steps, lambda: log_end(machine, "10911"))
            broker.stop()
            copy.stop()
        options = {"messageDelayLevel": LADDER, "transactionCheckInterval": "6000"}
        with apache_broker(jars, machine, machine.folder / "store", **options):
            assert asyncio.run(collect(broker_address, pending, 100)) == []


@case("what waits (level, timer, half) moves to Apache by a replica of Apache's", SECTION)
def test_what_waits_moves_by_an_apache_replica(machine: Machine, jars: Jars) -> None:
    broker = machine.start(broker_line(), *small(LADDER))
    store = machine.folder / "store"
    with running(broker):
        fill_files(machine)
        pending = asyncio.run(leave(broker_address := machine.address("10911"), LATER_S * 1_000))
        follow, *steps = commands(TO_APACHE)
        with running(machine.start(follow, says="caught up")) as copy:
            copy.stop()
        options = {"messageDelayLevel": LADDER, "transactionCheckInterval": "6000"}
        slave = {"brokerRole": "SLAVE", "brokerId": "1", "port": str(machine.port("10931"))}
        with apache_broker(jars, machine, store, **options, **slave) as replica:
            for step in steps:
                if "updateBrokerConfig" in step:
                    machine.run(step)
            until(lambda: log_end(machine, "10931") >= log_end(machine, "10911"), 60, "Apache's replica has the log")
            end = log_end(machine, "10911")
            broker.stop()
            replica.stop()
        same_log(machine.folder / "shop", store, end)
        with apache_broker(jars, machine, store, **options):
            assert asyncio.run(collect(broker_address, pending, 100)) == []


@case("what waits (level, timer, half) moves from Apache", SECTION)
def test_what_waits_moves_from_apache(machine: Machine, jars: Jars) -> None:
    options = {"messageDelayLevel": LADDER, "transactionTimeOut": "600000"}
    with apache_broker(jars, machine, machine.folder / "store", **options) as apache:
        fill_files(machine)
        pending = asyncio.run(leave(apache.address, LATER_S * 1_000))
        follow, *steps = commands(BACK)
        with running(machine.start(follow, says="caught up")) as copy:
            hand_over(machine, steps, lambda: log_end(machine, "10911"))
            apache.stop()
            machine.wait_for(copy, "master broker=")
            assert asyncio.run(collect(machine.address("10951"), pending, 100)) == []
