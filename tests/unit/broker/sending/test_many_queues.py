"""A thousand topics: the core stages for their queues what Python would have staged, whatever happens between."""

from __future__ import annotations

import errno
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from pyromq.compiled_core import DESCRIPTION, core
from pyromq.model.topic import TopicConfig
from pyromq.store import queue_scan
from pyromq.store.message_store import MessageStore
from pyromq.store.settings import Flush, StoreSettings
from pyromq.testing import ManualClock
from pyromq.testing.faulty_disk import CrashMode
from tests.crash.script import check_agreement
from tests.unit.broker.sending.lane_rig import ROOT, STORE, LaneRig, send_frame, use_pure_queues
from tests.unit.broker.sending.test_one_truth import compare

pytestmark = pytest.mark.skipif(core is None, reason=f"nothing to compare: {DESCRIPTION}")
TOPICS = 1_000
WIDE: dict[str, Any] = {"segment_bytes": 1 << 20, "entry_backlog_max": 2_000, "queue_file_entries": 4}


def frame(rng: Random, number: int, topic: int, queue: int) -> bytes:
    text = f"UNIQ_KEY\x01{number:032X}\x02" + ("TAGS\x01red\x02" if number % 3 else "")
    return send_frame(number, f"topic-{topic}", queue, text, rng.randbytes(rng.choice((0, 5, 60))))


def read_of(rng: Random, number: int, count: int, topics: int) -> bytes:
    return b"".join(frame(rng, number + more, rng.randrange(topics), rng.randrange(2)) for more in range(count))


def make_topics(rig: LaneRig, rng: Random, count: int) -> None:
    """So many topics with two queues that have a message each: the lane knows all of them."""
    names = [f"topic-{number}" for number in range(count)]
    rig.broker.parts.tables.topics.update_all(
        TopicConfig(topic_name=name, read_queue_nums=4, write_queue_nums=4) for name in names
    )
    for topic in range(0, count, 50):
        some = range(topic, min(count, topic + 50))
        rig.arrive(0, b"".join(frame(rng, 1 + 2 * each + queue, each, queue) for each in some for queue in (0, 1)))
    if rig.sends.lane is not None:
        assert rig.sends.lane.known == 2 * count


Between = Callable[[LaneRig, int], None]


def nothing(rig: LaneRig, step: int) -> None:
    """All goes well."""


def commits_fail(rig: LaneRig, step: int) -> None:
    """The records of reads over many queues are not written: their entries are dropped."""

    def refuse(kind: str) -> None:
        if kind == "write":
            raise OSError(errno.ENOSPC, "simulated disk is full")

    if step in (6, 9):
        rig.disk.before_each(refuse)
    elif step in (7, 10):
        rig.disk.before_each(lambda kind: None)
        rig.broker.store.health.space_returned()


def topics_go(rig: LaneRig, step: int) -> None:
    """Topics are deleted whose queues are owed entries, and some are made again."""
    if step in (5, 8, 11):
        owed = sorted({key[0] for key, queue in rig.broker.store.queues.items() if queue.owed_entries})
        assert owed, "else it is another case"
        for name in owed[:3]:
            rig.broker.parts.tables.topics.delete(name)
            rig.broker.store.delete_topic(name)
        rig.broker.parts.tables.topics.create(owed[0], queues=4)


def roles_change(rig: LaneRig, step: int) -> None:
    """Everything that the lane has learned is gone, its counts are not."""
    if step in (5, 6, 10) and rig.sends.lane is not None:
        rig.sends.lane.renew(is_open=True, waiting=())


def written_between(rig: LaneRig, step: int) -> None:
    """Readers, ticks and seals write what queues are owed."""
    rig.clock.advance_ms(700)
    rig.broker.store.write_entries(3)
    for queue_id in range(2):
        rig.broker.store.reader.range_of(f"topic-{step}", queue_id)
    if step == 8:
        assert rig.broker.store.seal()


async def outcome_of(seed: int, topics: int, between: Between, *, with_core: bool, flush: Flush) -> dict[str, Any]:
    rng, number = Random(seed), 1 + 2 * topics
    async with LaneRig(with_core, flush, seed, store=WIDE) as rig:
        make_topics(rig, rng, topics)
        for step in range(14):
            await rig.settle()
            between(rig, step)
            for peer in rng.sample(range(3), rng.choice((1, 2, 3))):
                rig.arrive(peer, read_of(rng, number, 40, topics))
                number += 40
        await rig.settle()
        news = set(rig.broker.store.take_news())
        return rig.outcome() | {"news": news, "lag": len(rig.broker.store._backlog.line)}


@pytest.mark.parametrize("between", [nothing, commits_fail, topics_go, roles_change, written_between])
@pytest.mark.parametrize("flush", Flush)
async def test_many_queues_get_what_python_gives_them(
    flush: Flush, between: Between, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(queue_scan, "core", None)
        use_pure_queues(patch)
        expected = await outcome_of(1, 60, between, with_core=False, flush=flush)
    found = await outcome_of(1, 60, between, with_core=True, flush=flush)
    compare(found, expected)
    assert sum(total >> 128 for total in found["puts"].values()) > 600


async def test_a_thousand_topics_get_what_python_gives_them(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(queue_scan, "core", None)
        use_pure_queues(patch)
        expected = await outcome_of(2, TOPICS, commits_fail, with_core=False, flush=Flush.ASYNC)
    found = await outcome_of(2, TOPICS, commits_fail, with_core=True, flush=Flush.ASYNC)
    compare(found, expected)


async def test_a_failing_commit_takes_back_the_entries_of_all_queues_of_a_read() -> None:
    rng = Random(3)
    async with LaneRig(with_core=True, store=WIDE) as rig:
        make_topics(rig, rng, 80)
        await rig.settle()
        before = {key: (queue.next_offset, queue.committed_end) for key, queue in rig.broker.store.queues.items()}

        def refuse(kind: str) -> None:
            if kind == "write":
                raise OSError(errno.ENOSPC, "simulated disk is full")

        rig.disk.before_each(refuse)
        data = b"".join(frame(rng, 100 + topic, topic, 0) for topic in range(80)) * 2
        assert rig.sends.lane.take(rig.clients[1].connection, data) == len(data)
        store = rig.broker.store
        assert store._backlog.line.has_staged and store.queues["topic-9", 0].next_offset == 3
        await rig.settle()
        assert not store._backlog.line.has_staged
        assert {key: (queue.next_offset, queue.committed_end) for key, queue in store.queues.items()} == before
        rig.disk.before_each(lambda kind: None)
        store.health.space_returned()
        rig.arrive(0, frame(rng, 1_000, 9, 0))
        await rig.settle()
        assert store.queues["topic-9", 0].next_offset == 2


@pytest.mark.parametrize("mode", CrashMode)
async def test_queues_agree_with_the_log_after_a_power_cut_while_entries_are_owed(mode: CrashMode) -> None:
    rng, number = Random(5), 1
    async with LaneRig(with_core=True, flush=Flush.SYNC, store=WIDE) as rig:
        make_topics(rig, rng, 40)
        await rig.settle()
        for step in range(4):
            number += 100
            rig.arrive(step % 3, read_of(rng, number, 40, 40))
            if step % 2:
                await rig.settle()
            disk = rig.disk.after_crash(mode, rng)
            with MessageStore.open(
                ROOT, StoreSettings(flush=Flush.SYNC, **STORE | WIDE), disk=disk, clock=ManualClock()
            ) as store:
                check_agreement(store)
        await rig.settle()
        owed = next(key for key, queue in rig.broker.store.queues.items() if queue.owed_entries)
        rig.broker.store.delete_topic(owed[0])
        ends = {key: queue.next_offset for key, queue in rig.broker.store.queues.items()}
        disk = rig.disk.after_crash(mode, rng)
        with MessageStore.open(ROOT, rig.broker.store.settings, disk=disk, clock=ManualClock()) as store:
            assert {key: queue.next_offset for key, queue in store.queues.items()} == ends and owed not in ends


async def test_counts_of_topics_are_there_whenever_somebody_looks() -> None:
    rng = Random(4)
    async with LaneRig(with_core=True, store=WIDE) as rig:
        stats = rig.broker.parts.stats
        make_topics(rig, rng, 3)
        await rig.settle()
        for turn in range(1, 4):
            rig.arrive(0, frame(rng, 3, 1, 0) + frame(rng, 4, 1, 0) + frame(rng, 5, 2, 0))
            assert [stats.puts.totals[f"topic-{topic}"] >> 128 for topic in (1, 2)] == [2 + 2 * turn, 2 + turn]
            assert stats.puts.totals["topic-2"] >> 64 & 0xFFFF == 2 + turn
            if turn == 2:
                rig.sends.lane.renew(is_open=True, waiting=())
            await rig.settle()
        view = stats.view("TOPIC_PUT_NUMS", "topic-1", "DefaultCluster")
        assert view is not None and view.stats_day.sum == 8
        rig.broker.parts.tables.topics.create("another", queues=4)
        rig.arrive(0, frame(rng, 6, 1, 0))
        assert stats.puts.totals["topic-1"] >> 128 == 9
        await rig.settle()
