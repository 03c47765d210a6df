"""Rounds of metadata whose tables are as they were: one request, nothing taken over, and no commit forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pyromq.broker.replicating.metadata import MetadataSync
from pyromq.broker.state.progress import ReplicaProgress
from pyromq.errors import ConnectionLostError
from pyromq.store.files.layout import Layout
from pyromq.store.tables.offsets import DelayOffsets, OffsetTable
from pyromq.testing import FaultyDisk, ManualClock
from pyromq.wire.codes import RequestCode as Code
from tests.unit.broker.builders import ROOT, environment, groups, tables, topics
from tests.unit.broker.replicating.answering_master import AnsweringMaster, offsets

ROUND = [Code.QUERY_MEMBER_TABLES]


class Replica:
    """A replica whose log is as far as its master's; ``adopted`` has every text of offsets that it took over."""

    def __init__(self, master: AnsweringMaster) -> None:
        self.master = master
        self.disk = FaultyDisk()
        self.progress = ReplicaProgress(OffsetTable.load(self.disk, ROOT), ManualClock())
        self.adopted: list[bytes] = []
        adopt = self.progress.table.adopt
        cast(Any, self.progress.table).adopt = lambda text: (self.adopted.append(text), adopt(text))
        self.delays: list[dict[int, int]] = []
        known = topics()[0]
        master.tables[Code.GET_ALL_TOPIC_CONFIG] = known.table.text()
        master.tables[Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG] = groups().table.text()
        self.state = tables(topics=known, progress=self.progress)

    def run(self, story: Callable[[MetadataSync], Awaitable[None]]) -> None:
        """The story begins after the first round."""

        async def begin() -> None:
            with ThreadPoolExecutor(1) as saver:
                metadata = await self._metadata(saver)
                await metadata.refresh()
                self.master.asked.clear()
                self.adopted.clear()
                self.delays.clear()
                await story(metadata)

        asyncio.run(begin())

    async def _metadata(self, saver: ThreadPoolExecutor) -> MetadataSync:
        async def reached(position: int) -> None:
            """It is."""

        attached = asyncio.Event()
        attached.set()
        return MetadataSync(
            environment(disk=self.disk),
            cast(Any, SimpleNamespace(layout=Layout(ROOT), queues={}, flushed_position=1 << 40)),
            self.state,
            cast(Any, None),
            cast(Any, SimpleNamespace(attached=attached, reached=reached)),
            await self.master.calls(),
            saver,
            lambda delays: self.delays.append(dict(delays.items())),
        )


@pytest.fixture
def replica() -> Replica:
    return Replica(AnsweringMaster())


def test_when_nothing_has_changed_a_round_is_one_request_and_takes_nothing_over(replica: Replica) -> None:
    async def story(metadata: MetadataSync) -> None:
        replica.master.end = 950
        await metadata.refresh()
        assert (metadata.rounds, metadata.log_end, metadata.number_under(1)) == (2, 950, 3), "it counts"
        assert not metadata.troubles

    replica.run(story)
    assert replica.master.asked == ROUND
    assert not replica.adopted and not replica.delays


def test_one_changed_table_is_taken_over_and_no_other(replica: Replica) -> None:
    async def story(metadata: MetadataSync) -> None:
        replica.master.tables[Code.GET_ALL_DELAY_OFFSET] = b'{"offsetTable":{1:11}}'
        await metadata.refresh()

    replica.run(story)
    assert replica.master.asked == ROUND
    assert replica.delays == [{1: 11}] and not replica.adopted
    assert DelayOffsets.load(replica.disk, ROOT).get(1) == 11


def test_commits_made_here_are_brought_although_the_masters_offsets_are_as_they_were(replica: Replica) -> None:
    async def story(metadata: MetadataSync) -> None:
        replica.progress.commit("readers", "orders", 0, 9)
        replica.progress.commit("readers", "orders", 1, 4)
        await metadata.refresh()
        assert replica.progress.committed("readers", "orders", 0) == 9, "ahead of the master's, which is 7"
        await metadata.refresh()

    replica.run(story)
    assert replica.master.asked == [*ROUND, Code.UPDATE_CONSUMER_OFFSET, Code.UPDATE_CONSUMER_OFFSET, *ROUND]
    assert not replica.progress.take_commits()


def test_commits_made_while_the_master_is_away_are_kept_until_it_is_back(replica: Replica) -> None:
    async def story(metadata: MetadataSync) -> None:
        replica.progress.commit("readers", "orders", 0, 9)
        for lost_at in (Code.QUERY_MEMBER_TABLES, Code.UPDATE_CONSUMER_OFFSET):
            replica.master.is_lost_at = lost_at
            if lost_at == Code.QUERY_MEMBER_TABLES:
                with pytest.raises(ConnectionLostError):
                    await metadata.refresh()
            else:
                await metadata.refresh()
            assert metadata.rounds == 1
        replica.master.is_lost_at = None
        replica.master.asked.clear()
        await metadata.refresh()
        assert metadata.rounds == 2 and not metadata.troubles

    replica.run(story)
    assert replica.master.asked == [*ROUND, Code.UPDATE_CONSUMER_OFFSET]


def test_a_table_that_could_not_be_taken_over_is_tried_again_without_a_change_at_the_master(replica: Replica) -> None:
    async def story(metadata: MetadataSync) -> None:
        replica.master.tables[Code.GET_ALL_CONSUMER_OFFSET] = b"7"
        for _ in range(2):
            await metadata.refresh()
            assert set(metadata.troubles) == {"offsets"} and metadata.rounds == 1
        replica.master.tables[Code.GET_ALL_CONSUMER_OFFSET] = offsets(8)
        await metadata.refresh()
        assert metadata.rounds == 2 and not metadata.troubles

    replica.run(story)
    assert replica.adopted == [b"7", b"7", offsets(8)]
    assert replica.master.asked == ROUND * 3


def test_topics_that_changed_come_with_a_round_and_the_next_one_is_one_request_again(replica: Replica) -> None:
    async def story(metadata: MetadataSync) -> None:
        master, (changed, _) = replica.master, topics()
        changed.create("orders", queues=2)
        master.tables[Code.GET_ALL_TOPIC_CONFIG], master.metadata = changed.table.text(), 4
        await metadata.refresh()
        assert metadata.number_under(1) == 4 and replica.state.topics.get("orders") is not None
        master.asked.clear()
        await metadata.refresh()

    replica.run(story)
    assert replica.master.asked == ROUND
