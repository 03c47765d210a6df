"""Copies in batches, as executors send them: outcomes as if each had gone alone, and nothing twice after a kill."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from pyromq import Admin
from pyromq.errors import RequestTimeoutError
from pyromq.model import property_names as names
from pyromq.model.names import retry_topic
from pyromq.operate.resend.outcomes import ItemOutcome, ItemStatus
from pyromq.operate.resend.outgoing import Item, Outgoing
from pyromq.pipeline.jobs import Selection
from pyromq.pipeline.jobs.common.plain_rows import rows_of
from pyromq.pipeline.jobs.resending import batches
from pyromq.pipeline.jobs.resending.batches import CopyBatchSender
from pyromq.pipeline.jobs.resending.executors import PartTask, sent_once
from pyromq.pipeline.jobs.resending.outgoing import SparkRow, outgoing, source_of
from pyromq.pipeline.jobs.resending.packed import CopyMark, PackedRows
from pyromq.testing import LoopbackBroker

pytestmark = pytest.mark.integration


class Rig:
    def __init__(self, broker: LoopbackBroker) -> None:
        self.broker = broker
        self.sender = CopyBatchSender(broker.nameserver, {"retryTimeout": "2s", "requestTimeout": "1s"})

    def rows(self, topic: str = "to") -> list[dict[str, Any]]:
        chosen = Selection(topics=(topic,), nameserver=self.broker.nameserver)
        found = list(rows_of(chosen, "queue_id", "queue_offset", "message_id", "body", "properties"))
        return sorted(found, key=lambda row: (row["queue_id"], row["queue_offset"]))

    def ids(self) -> Counter[str]:
        return Counter(row["message_id"] for row in self.rows())


@pytest.fixture
def rig() -> Iterator[Rig]:
    with LoopbackBroker() as broker:
        with Admin(broker.nameserver) as admin:
            admin.topics.create("to", queues=4)
            admin.groups.create("g")
        yield Rig(broker)


def copy(number: int, *, is_checked: bool = False) -> Outgoing:
    name = f"{number:032X}"
    source = ItemOutcome(offset_message_id=f"O{number}", status=ItemStatus.WOULD_SEND, new_message_id=name)
    return Outgoing(
        source=source, topic="to", message_id=name, body=b"%d" % number, properties=((names.UNIQUE_KEY, name),),
        is_checked=is_checked,
    )  # fmt: skip


@dataclass(frozen=True)
class Copying:
    """Copies of rows whose topic says where they go; one of them is not sent."""

    is_checked: bool = False
    mark_names = ()

    def __call__(self, row: SparkRow) -> Item:
        if row["offset_message_id"] == HELD:
            return source_of(row, ItemStatus.HELD_BACK)
        return outgoing(row, row["topic"], id_of(row["offset_message_id"]), (), is_checked=self.is_checked)

    def mark(self, place: str, origin: str) -> CopyMark | None:
        return None if place == HELD or place.startswith("R") else CopyMark("to", id_of(place), ())


HELD = "held"
COPYING = Copying()


def id_of(place: str) -> str:
    return f"{int(place.strip('RO')):032X}"


def rows_of_copies(*places: str, topic: str = "to", **properties: str) -> list[dict[str, Any]]:
    return [
        {"topic": topic, "message_id": "M", "offset_message_id": place, "keys": "k", "tags": "t", "flag": 0,
         "properties": list(properties.items()), "body": place.strip("RO").encode()}
        for place in places
    ]  # fmt: skip


def packed(rows: list[dict[str, Any]], sent: frozenset[str] | None = frozenset()) -> list[PackedRows]:
    schema = pa.schema(
        [(name, pa.string()) for name in ("topic", "message_id", "offset_message_id", "keys", "tags")]
        + [("flag", pa.int32()), ("properties", pa.map_(pa.string(), pa.string())), ("body", pa.binary())]
    )
    return [PackedRows(pa.RecordBatch.from_pylist(rows, schema), COPYING, sent)]


def places(*numbers: int) -> list[str]:
    return [f"O{number}" for number in numbers]


def send(rig: Rig, rows: list[dict[str, Any]]) -> list[ItemOutcome]:
    return list(rig.sender.send_rows(packed(rows), COPYING, says_places=True))


def test_every_copy_of_a_batch_has_its_own_outcome(rig: Rig) -> None:
    keyed = [
        row for number in range(300) for row in rows_of_copies(f"O{number}", **{names.SHARDING_KEY: f"k{number % 3}"})
    ]
    rows = [*keyed, *rows_of_copies(HELD), *rows_of_copies(*places(*range(300, 900)))]
    found = send(rig, rows)
    assert [each.status for each in found] == [ItemStatus.SENT] * 300 + [ItemStatus.HELD_BACK] + [ItemStatus.SENT] * 600
    assert [each.offset_message_id for each in found] == [row["offset_message_id"] for row in rows]
    there = {(row["queue_id"], row["queue_offset"]): row["message_id"] for row in rig.rows()}
    for each in found[:300] + found[301:]:
        assert there[int(each.to_queue.split(":")[1]), each.to_offset] == each.new_message_id
    for key in range(3):
        mine = [row for row in rig.rows() if row["properties"].get(names.SHARDING_KEY) == f"k{key}"]
        assert [int(row["body"]) for row in mine] == list(range(key, 300, 3)), "a sharding key keeps its order"
    assert len({row["queue_id"] for row in rig.rows() if int(row["body"]) >= 300}) > 1, "others are spread"


def test_outcomes_that_nobody_keeps_say_only_that_copies_were_sent(rig: Rig) -> None:
    found = list(rig.sender.send_rows(packed(rows_of_copies(*places(1, 2))), COPYING, says_places=False))
    assert [(each.status, each.to_queue) for each in found] == [(ItemStatus.SENT, "")] * 2
    assert rig.ids().total() == 2


def test_what_brokers_take_alone_goes_alone(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    with Admin(rig.broker.nameserver) as admin:
        admin.topics.create(retry_topic("g"), queues=1)
    batched: list[str] = []
    whole = CopyBatchSender._store

    async def noted(self: Any, queue: Any, part: Any) -> Any:
        batched.extend(copy.mark.message_id for copy in part)
        return await whole(self, queue, part)

    monkeypatch.setattr(CopyBatchSender, "_store", noted)
    rows = [
        *rows_of_copies("O1"),
        *rows_of_copies("R2", topic=retry_topic("g")),
        *rows_of_copies("O3", **{names.PRIORITY: "1"}),
        *rows_of_copies("O5"),
    ]
    assert {each.status for each in send(rig, rows)} == {ItemStatus.SENT}
    assert sorted(batched) == [id_of("O1"), id_of("O5")]
    assert len(rig.rows(retry_topic("g"))) == 1
    (again,) = rig.sender.send_all([copy(3, is_checked=True)])
    assert again.status is ItemStatus.SENT_BEFORE


@pytest.mark.parametrize("is_stored", [True, False])
@pytest.mark.parametrize("key", ["", "k"])
def test_a_batch_without_a_response_is_settled_message_by_message(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, is_stored: bool, key: str
) -> None:
    monkeypatch.setattr(batches, "_DOUBT_S", 0.01)
    whole, lost = CopyBatchSender._store, []

    async def without_response(self: Any, queue: Any, part: Any) -> Any:
        if is_stored:
            await whole(self, queue, part)
        lost.append(len(part))
        raise RequestTimeoutError("no response")

    monkeypatch.setattr(CopyBatchSender, "_store", without_response)
    found = send(rig, rows_of_copies(*places(*range(40)), **({names.SHARDING_KEY: key} if key else {})))
    assert lost and {each.status for each in found} == {ItemStatus.SENT}
    assert rig.ids() == Counter(f"{number:032X}" for number in range(40)), "each once"
    if key:
        assert [int(row["body"]) for row in rig.rows()] == list(range(40)), "in their order"


def test_a_topic_that_is_not_there_fails_each_of_its_messages(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "_DOUBT_S", 0.01)
    monkeypatch.setattr(Copying, "mark", lambda self, place, origin: CopyMark("nowhere", id_of(place), ()))
    found = send(rig, rows_of_copies(*places(1, 2), topic="nowhere"))
    assert [each.status for each in found] == [ItemStatus.FAILED] * 2
    assert all("nowhere" in each.error for each in found)


@pytest.mark.parametrize("is_known", [True, False])
def test_an_attempt_after_a_killed_one_sends_what_is_missing(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, is_known: bool
) -> None:
    """Spark counts attempts of a task, but begins anew when it repeats a stage."""
    list(rig.sender.send_all(map(copy, range(120))))  # and no more is heard of it
    found = list(sent_once(rig.sender, map(copy, range(300)), is_again=is_known))
    assert Counter(each.status for each in found) == {ItemStatus.SENT: 300}, "by this run, whichever attempt it was"
    assert rig.ids() == Counter(f"{number:032X}" for number in range(300))


@pytest.mark.parametrize("is_known", [True, False])
def test_a_task_after_a_killed_one_sends_what_is_missing(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, is_known: bool
) -> None:
    """A whole task: its first rows are looked for, and the others packed if none of those is there."""
    task = PartTask(
        nameserver=rig.broker.nameserver, options={"retryTimeout": "2s"}, item_of=COPYING, rate=None, sent=frozenset(),
        left_out=frozenset(["O299"]),
    )  # fmt: skip

    def batches_of(count: int) -> Iterator[pa.RecordBatch]:
        rows = rows_of_copies(*places(*range(count)))
        return iter([each._rows for start in range(0, count, 100) for each in packed(rows[start : start + 100])])

    def sent(count: int, *, is_again: bool) -> Counter[ItemStatus]:
        left = map(task._left, batches_of(count))
        return Counter(each.status for each in task._sent(rig.sender, left, is_again=is_again))

    assert sent(150, is_again=False) == {ItemStatus.SENT: 150}
    assert sent(300, is_again=is_known) == {ItemStatus.SENT: 299}, "by this run, whichever attempt it was"
    assert rig.ids() == Counter(f"{number:032X}" for number in range(299)), "one was left out"
    assert not sent(0, is_again=False)
