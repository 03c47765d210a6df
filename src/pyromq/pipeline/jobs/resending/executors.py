"""Sending from executors, where there is much to send: parts of the chosen rows, each sent by one task of Spark.

    rows ──▶ parts: all of a sharding key in one, in the order they were stored ──▶ tasks: batches ──▶ outcomes

A task that is run again cannot know how far the one before it came. Ids follow from messages, so it can look: its first
messages are looked for and settled before any other is sent, and where one of them is there already, or Spark says that
it is another attempt, every message is looked for before it is sent.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final, Self, TypedDict

import msgspec

from pyromq.errors import TopicNotFoundError
from pyromq.operate.resend.outcomes import ItemOutcome, ItemStatus
from pyromq.operate.resend.outgoing import Item, Outgoing
from pyromq.pipeline.jobs.common.bars import Tell
from pyromq.pipeline.jobs.common.plain_rows import count_of
from pyromq.pipeline.jobs.common.selection import Selection
from pyromq.pipeline.jobs.resending.batches import CopyBatchSender
from pyromq.pipeline.jobs.resending.outgoing import SparkRow
from pyromq.pipeline.jobs.resending.packed import Copier, PackedRows, texts_of
from pyromq.pipeline.jobs.resending.sending import chunks
from pyromq.pipeline.spark.session import is_connect
from pyromq.pipeline.tables.answer import rows_of_batch

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

FEW: Final = 5_000  # messages that the driver sends in a second: fewer, or slower, are not worth tasks
PROBES: Final = 8
_PART: Final = 20_000  # messages of a part, about: what is looked for again when a task fails
_SENT_MAX: Final = 1_000_000  # ids that are known in every task
_READS_FOR_A_LOOK: Final = 50  # messages that are read in the time that it takes to ask for one
_LOOK_S: Final = 0.5
_REPORTED: Final = 512  # outcomes for one step of the progress


class PartOutcome(msgspec.Struct, frozen=True):
    """What became of a part: how many ended how, and the outcomes that were asked for."""

    counts: dict[ItemStatus, int]
    outcomes: list[ItemOutcome]

    @classmethod
    def of(
        cls,
        found: Iterable[ItemOutcome],
        *,
        keeps: Collection[ItemStatus] = frozenset(ItemStatus),
        keeps_max: int | None = None,
    ) -> Self:
        """Count outcomes, and keep those that ended so, the first so many."""
        counts, kept = dict.fromkeys(ItemStatus, 0), list[ItemOutcome]()
        for each in found:
            counts[each.status] += 1
            if each.status in keeps and (keeps_max is None or len(kept) < keeps_max):
                kept.append(each)
        return cls(counts, kept)

    @classmethod
    def joined(cls, parts: Iterable[PartOutcome]) -> Self:
        counts, kept = dict.fromkeys(ItemStatus, 0), list[ItemOutcome]()
        for part in parts:
            kept += part.outcomes
            for status, count in part.counts.items():
                counts[status] += count
        return cls(counts, kept)


class KeptOutcomes(TypedDict):
    """Which outcomes of a part are returned one by one, and how many of them."""

    keeps: frozenset[ItemStatus]
    keeps_max: int | None


def send_from_executors(spark: SparkSession | None, count: int, rate: float | None) -> bool:
    """Whether executors send: not few messages, nor slowly, because the driver keeps to the order of all of them.

    Two attempts of a task at a time (speculation) would send twice what neither of them finds.
    """
    if spark is None or count < FEW:
        return False
    if is_connect(spark):
        return rate is None and spark.conf.get("spark.speculation", "false") != "true"
    is_fast = rate is None or rate > FEW
    return is_fast and spark.sparkContext.getConf().get("spark.speculation", "false") != "true"


def parts_of(spark: SparkSession, count: int, rate: float | None) -> int:
    """How many parts to make; with a rate as many as can run at a time, each with its share of it."""
    at_once = 1 if is_connect(spark) else spark.sparkContext.defaultParallelism
    return at_once if rate is not None else max(at_once, -(-count // _PART))


def sent_before(
    spark: SparkSession, selections: Iterable[Selection], mark: tuple[str, str], count: int
) -> frozenset[str] | None:
    """Ids of copies that topics have, found by reading them once; None where to ask for each copy takes less.

    ``mark`` is the property that copies have, and its value if all of them have the same; ``count`` is about how many
    would be asked for. Raises what the source raises.
    """
    from pyspark.sql import functions as F  # noqa: N812

    name, value = mark
    marked = F.col("properties").getItem(name)
    condition = marked == F.lit(value) if value else marked.isNotNull()
    found: set[str] = set()
    for each in selections:
        try:
            selection = each.frozen()
            if count_of(selection) > _READS_FOR_A_LOOK * max(count, FEW):
                return None
        except TopicNotFoundError:
            continue  # nothing was sent there yet
        copies = selection.frame(spark, "message_id", "properties").where(condition).select("message_id")
        found.update(copies.limit(_SENT_MAX + 1).toArrow().column(0).to_pylist())
        if len(found) > _SENT_MAX:
            return None
    return frozenset(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartTask:
    """Sends a part; travels to executors."""

    nameserver: str
    options: Mapping[str, str]
    item_of: Copier
    rate: float | None  # of one part
    sent: frozenset[str] | None  # ids that were sent before; None: nobody has looked
    left_out: frozenset[str] = frozenset()  # places of messages that are done
    keeps: frozenset[ItemStatus] = frozenset(ItemStatus)  # outcomes to return
    keeps_max: int | None = None
    done: Any = None  # accumulator of Spark, for progress

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        from pyspark import TaskContext

        context = TaskContext.get()
        sender = CopyBatchSender(self.nameserver, self.options, rate=self.rate)
        is_again = context is not None and context.attemptNumber() > 0
        found = self._counted(self._sent(sender, map(self._left, batches), is_again=is_again))
        outcome = PartOutcome.of(found, keeps=self.keeps, keeps_max=self.keeps_max)
        yield pa.record_batch({"outcome": pa.array([msgspec.msgpack.encode(outcome)], pa.binary())})

    def _left(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that are not done."""
        if not self.left_out:
            return batch
        import pyarrow as pa

        return batch.filter(
            pa.array([each not in self.left_out for each in texts_of(batch.column("offset_message_id"))])
        )

    def _sent(
        self, sender: CopyBatchSender, batches: Iterator[pa.RecordBatch], *, is_again: bool
    ) -> Iterator[ItemOutcome]:
        """Send the first rows one by one, and if no attempt before this one did, the others packed."""
        first = next((batch for batch in batches if batch.num_rows), None)
        if first is None:
            return
        head = list(map(self._item, rows_of_batch(first.slice(0, PROBES))))
        rest = chain((first.slice(PROBES),), batches)
        if is_again or is_repeated(sender, head):
            items = (self._item(row) for batch in rest for row in rows_of_batch(batch))
            yield from sent_once(sender, chain(head, items), is_again=True)
            return
        yield from sender.send_all(head)
        packed = (PackedRows(batch, self.item_of, self.sent) for batch in rest)
        says_places = not self.keeps.isdisjoint((ItemStatus.SENT, ItemStatus.SENT_BEFORE))
        yield from sender.send_rows(packed, self._item, says_places=says_places)

    def _counted(self, found: Iterable[ItemOutcome]) -> Iterator[ItemOutcome]:
        if self.done is None:
            yield from found
            return
        for some in chunks(found, _REPORTED):
            self.done.add(len(some))
            yield from some

    def _item(self, row: SparkRow) -> Item:
        item = self.item_of(row)
        if self.sent is None or not isinstance(item, Outgoing) or not item.is_checked:
            return item
        if not self.sent.isdisjoint(item.sent_as or (item.message_id,)):
            return item.source.ended(ItemStatus.SENT_BEFORE)
        return replace(item, is_checked=False)


def is_repeated(sender: CopyBatchSender, first: Iterable[Item]) -> bool:
    """Whether an attempt before this one sent one of the first items, though nobody says so."""
    looked = sender.look_all(_checked(each) for each in first if isinstance(each, Outgoing))
    return any(each.status is ItemStatus.SENT_BEFORE for each in looked)


def sent_once(sender: CopyBatchSender, items: Iterator[Item], *, is_again: bool) -> Iterator[ItemOutcome]:
    """Send the items of a part, also when some of them were sent by an attempt before this one."""
    first = list(islice(items, PROBES))
    is_again = is_again or is_repeated(sender, first)
    if not is_again:
        yield from sender.send_all(first)
        yield from sender.send_all(items)
        return
    for chunk in chunks(chain(first, items), sender.chunk):
        for item, found in zip(chunk, sender.send_all(map(_checked, chunk)), strict=True):
            if found.status is ItemStatus.SENT_BEFORE and isinstance(item, Outgoing) and not item.is_checked:
                found = found.ended(ItemStatus.SENT)  # by an attempt before this one
            yield found


def run_parts(
    spark: SparkSession, frame: DataFrame, task: PartTask, report: Tell, total: int | None
) -> list[PartOutcome]:
    """Send all parts, and report progress meanwhile. Raises what Spark raises."""
    from pyspark import InheritableThread

    if is_connect(spark):
        return _collected(frame, task)
    context = spark.sparkContext
    counter = context.accumulator(0)
    ended: list[list[PartOutcome] | BaseException] = []

    def work() -> None:
        try:
            ended.append(_collected(frame, replace(task, done=counter)))
        except BaseException as error:
            ended.append(error)

    thread = InheritableThread(target=work, daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(_LOOK_S)
        report(counter.value, total)
    (found,) = ended
    if isinstance(found, BaseException):
        raise found
    return found


def _collected(frame: DataFrame, task: PartTask) -> list[PartOutcome]:
    rows = frame.mapInArrow(task, "outcome binary").collect()
    return [msgspec.msgpack.decode(bytes(row[0]), type=PartOutcome) for row in rows]


def _checked(item: Item) -> Item:
    return replace(item, is_checked=True) if isinstance(item, Outgoing) else item
