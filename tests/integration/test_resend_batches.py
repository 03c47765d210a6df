"""Copies in batches, as executors send them: outcomes as if each had gone alone, and nothing twice after a kill."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Any

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
from pyromq.pipeline.jobs.resending.batches import BatchSender
from pyromq.pipeline.jobs.resending.executors import sent_once
from pyromq.testing import LoopbackBroker

pytestmark = pytest.mark.integration


class Rig:
    def __init__(self, broker: LoopbackBroker) -> None:
        self.broker = broker
        self.sender = BatchSender(broker.nameserver, {"retryTimeout": "2s", "requestTimeout": "1s"})

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


def copy(number: int, topic: str = "to", *, is_checked: bool = False, **properties: str) -> Outgoing:
    name = f"{number:032X}"
    source = ItemOutcome(offset_message_id=f"O{number}", status=ItemStatus.WOULD_SEND, new_message_id=name)
    marked = ((names.UNIQUE_KEY, name), *properties.items())
    return Outgoing(
        source=source, topic=topic, message_id=name, body=b"%d" % number, properties=marked, is_checked=is_checked
    )


def test_every_copy_of_a_batch_has_its_own_outcome(rig: Rig) -> None:
    passing = ItemOutcome(offset_message_id="X", status=ItemStatus.HELD_BACK)
    keyed: list[Item] = [copy(number, **{names.SHARDING_KEY: f"k{number % 3}"}) for number in range(300)]
    found = list(rig.sender.send_all([*keyed, passing, *map(copy, range(300, 900))]))
    assert [each.status for each in found] == [ItemStatus.SENT] * 300 + [ItemStatus.HELD_BACK] + [ItemStatus.SENT] * 600
    places = {(row["queue_id"], row["queue_offset"]): row["message_id"] for row in rig.rows()}
    for each in found[:300] + found[301:]:
        assert places[int(each.to_queue.split(":")[1]), each.to_offset] == each.new_message_id
    for key in range(3):
        mine = [row for row in rig.rows() if row["properties"].get(names.SHARDING_KEY) == f"k{key}"]
        assert [int(row["body"]) for row in mine] == list(range(key, 300, 3)), "a sharding key keeps its order"
    assert len({row["queue_id"] for row in rig.rows() if int(row["body"]) >= 300}) > 1, "others are spread"


def test_what_brokers_take_alone_goes_alone(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    with Admin(rig.broker.nameserver) as admin:
        admin.topics.create(retry_topic("g"), queues=1)
    batched: list[int] = []
    whole = BatchSender._send_batch

    async def noted(self: Any, queue: Any, part: Any) -> Any:
        batched.extend(int(message.body) for _, message in part)
        return await whole(self, queue, part)

    monkeypatch.setattr(BatchSender, "_send_batch", noted)
    items = [copy(1), copy(2, retry_topic("g")), copy(3, **{names.PRIORITY: "1"}), copy(4, is_checked=True), copy(5)]
    assert {each.status for each in rig.sender.send_all(items)} == {ItemStatus.SENT}
    assert sorted(batched) == [1, 5]
    (again,) = rig.sender.send_all([copy(4, is_checked=True)])
    assert again.status is ItemStatus.SENT_BEFORE


@pytest.mark.parametrize("is_stored", [True, False])
def test_a_batch_without_a_response_is_settled_message_by_message(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, is_stored: bool
) -> None:
    monkeypatch.setattr(batches, "_DOUBT_S", 0.01)
    whole, lost = BatchSender._send_batch, []

    async def without_response(self: Any, queue: Any, part: Any) -> Any:
        if is_stored:
            await whole(self, queue, part)
        lost.append(len(part))
        raise RequestTimeoutError("no response")

    monkeypatch.setattr(BatchSender, "_send_batch", without_response)
    found = list(rig.sender.send_all(map(copy, range(40))))
    assert lost and {each.status for each in found} == {ItemStatus.SENT}
    assert rig.ids() == Counter(f"{number:032X}" for number in range(40)), "each once"


def test_a_message_that_no_broker_takes_fails_alone(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "_DOUBT_S", 0.01)
    bad = copy(1, **{"colour": "\ud800"})  # which is no UTF-8
    found = list(rig.sender.send_all([copy(0), bad, copy(2)]))
    assert [each.status for each in found] == [ItemStatus.SENT, ItemStatus.FAILED, ItemStatus.SENT]
    assert "surrogates" in found[1].error


@pytest.mark.parametrize("is_known", [True, False])
def test_an_attempt_after_a_killed_one_sends_what_is_missing(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, is_known: bool
) -> None:
    """Spark counts attempts of a task, but begins anew when it repeats a stage."""
    monkeypatch.setattr(batches, "CHUNK", 50)
    list(islice(sent_once(rig.sender, map(copy, range(300)), is_again=False), 120))  # and no more is heard of it
    before = rig.ids()
    assert 120 <= before.total() < 300
    found = list(sent_once(rig.sender, map(copy, range(300)), is_again=is_known))
    assert Counter(each.status for each in found) == {ItemStatus.SENT: 300}, "by this run, whichever attempt it was"
    assert rig.ids() == Counter(f"{number:032X}" for number in range(300))
