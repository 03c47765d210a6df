"""Pops of a broker without sockets: a store in memory, a clock that stands still."""

from __future__ import annotations

from concurrent.futures import Executor
from typing import Any, cast

from pyromq.broker.base.settings import BrokerSettings
from pyromq.broker.base.stats import Counters
from pyromq.broker.commit.touched import Touched
from pyromq.broker.commit.write_path import open_write_path
from pyromq.broker.popping.calls import PoppedMessage, PopRequest, PopResult
from pyromq.broker.popping.keeping import open_popping
from pyromq.broker.popping.pops import Pops
from pyromq.broker.popping.receipts import receipt_numbers
from pyromq.model.topic import TopicConfig
from pyromq.store.message_store import MessageStore
from pyromq.store.settings import Flush, StoreSettings
from pyromq.testing import FaultyDisk, ManualClock
from pyromq.wire.property_text import join_items
from pyromq.wire.record import Draft, Record, split_records
from tests.unit.broker.builders import ROOT, environment, groups, progress, tables, topics
from tests.unit.broker.workers import PromptThread
from tests.unit.net.fakes import turn

GROUP, TOPIC = "billing", "orders"


def number_by_key(pops: Pops) -> None:
    """Let numbers of receipts follow from a known key: two brokers that do the same have the same ones."""
    pops._new_number = pops.settler._new_number = receipt_numbers(b"k" * 32)


class PopRig:
    """Make it inside a running loop; ``again`` opens the same disk as after a stop or a crash."""

    def __init__(
        self,
        disk: FaultyDisk | None = None,
        clock: ManualClock | None = None,
        *,
        flush: Flush = Flush.SYNC,
        queues: int = 1,
        kind: str = "",
        **changes: Any,
    ) -> None:
        self.disk, self.clock = disk or FaultyDisk(), clock or ManualClock()
        store = StoreSettings(flush=flush, segment_bytes=1 << 16, index_slots=10, index_entries=50)
        self.settings = BrokerSettings(**{"store": store, "name": "broker-a"} | changes)
        self.store = MessageStore.open(ROOT, self.settings.store, disk=self.disk, clock=self.clock)
        self.topics, _ = topics(self.settings, disk=self.disk)
        attributes = {"message.type": kind} if kind else {}
        self.topics.update(
            TopicConfig(topic_name=TOPIC, read_queue_nums=queues, write_queue_nums=queues, attributes=attributes)
        )
        self.groups = groups(self.settings, disk=self.disk)
        self.progress = progress(disk=self.disk)
        self.counters = Counters()
        self.environment = environment(self.settings, self.clock, self.disk)
        self.tables = tables(topics=self.topics, groups=self.groups, progress=self.progress)
        self.write_path = open_write_path(self.environment, self.store, PromptThread(), self.counters, lambda *_: None)
        self.group_commit = self.write_path.group_commit
        self.write_path.readers.join(self)
        worker = cast(Executor, None)  # nothing here ticks that long
        self.popping = open_popping(self.environment, self.tables, self.write_path, worker, self.counters)
        self.pops = self.popping.pops

    def wake(self, queues: Touched) -> None:
        self.popping.wake(queues)

    def again(self, disk: FaultyDisk | None = None) -> PopRig:
        return PopRig(disk or self.disk.after_crash(), self.clock, flush=self.settings.store.flush)

    def close(self) -> None:
        self.popping.keeper.save_now()
        self.progress.table.save()
        self.store.close()

    # --- what clients do ---

    def send(self, *bodies: str, queue_id: int = 0, topic: str = TOPIC, **properties: str) -> None:
        text = join_items(properties.items()).encode()
        for body in bodies:
            self.store.append([Draft(topic=topic, queue_id=queue_id, body=body.encode(), properties=text)])
        self.store.flush()

    async def pop(self, count: int = 32, **changes: Any) -> list[PoppedMessage]:
        result = await self.pop_result(count, **changes)
        return result.messages() if result is not None else []

    async def pop_result(self, count: int = 32, **changes: Any) -> PopResult | None:
        fields: dict[str, Any] = {"group": GROUP, "topic": TOPIC, "count": count}
        result = await self.pops.pop(PopRequest(**fields | changes))
        await settled()
        return result

    async def ack(self, message: PoppedMessage, group: str = GROUP) -> None:
        await self.pops.settler.ack(group, TOPIC, message.receipt)

    async def change(self, message: PoppedMessage, invisible_ms: int, **changes: Any) -> str:
        return await self.pops.settler.change_invisible(GROUP, TOPIC, message.receipt, invisible_ms, **changes)

    async def pass_ms(self, span_ms: int) -> None:
        self.clock.advance_ms(span_ms)
        self.popping.tick()
        self.pops.tick()
        await settled()

    def records(self, topic: str, queue_id: int = 0) -> list[Record]:
        known = self.store.reader.range_of(topic, queue_id)
        if known is None:
            return []
        return split_records(self.store.reader.read(topic, queue_id, known.first, count_max=1000).to_bytes())

    def committed(self, queue_id: int = 0) -> int | None:
        return self.progress.committed(GROUP, TOPIC, queue_id)


def bodies(messages: list[PoppedMessage]) -> list[str]:
    return [message.record.body.decode() for message in messages]


async def settled() -> None:
    for _ in range(8):
        await turn()
