"""Redriving without servers: which letters are sent, which are passed over, and what is remembered of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from pyromq.client.core.received_message import ReceivedMessage
from pyromq.errors import BrokerError
from pyromq.model.names import redrive_group
from pyromq.model.queue import QueueId
from pyromq.operate.dead_letters import DeadLetterFacet, LetterCounts
from pyromq.operate.resend.engine import Resender
from pyromq.operate.resend.outcomes import ItemOutcome, ItemStatus
from pyromq.operate.resend.outgoing import REDRIVEN_FROM, Outgoing, redriven_id
from pyromq.testing import ManualClock
from tests.unit.received import received

SENT, BEFORE, SAME, FAILED = (
    ItemStatus.SENT,
    ItemStatus.SENT_BEFORE,
    ItemStatus.SAME_MESSAGE,
    ItemStatus.FAILED,
)


class Brokers:
    """Stands for what the facet asks: a group with these letters, by broker; ``sent`` are ids that topics have."""

    def __init__(self, *queues: list[ReceivedMessage]) -> None:
        self.client: Any = SimpleNamespace(wire_name=str, plain_name=str, clock=ManualClock())
        self._queues = {QueueId("%DLQ%g", f"broker-{n}", 0): messages for n, messages in enumerate(queues)}
        self.done: dict[QueueId, int] = {}
        self.sent: list[str] = []

    @property
    def directory(self) -> Any:
        return self

    async def queues(self, topic: str) -> list[QueueId]:
        return list(self._queues)

    async def range(self, queue: QueueId) -> Any:
        return SimpleNamespace(min_offset=0, max_offset=len(self._queues[queue]))

    async def committed(self, group: str, queue: QueueId) -> int:
        assert group == redrive_group("g")
        return self.done.get(queue, 0)

    async def commit(self, group: str, queue: QueueId, offset: int) -> None:
        assert group == redrive_group("g")
        self.done[queue] = offset

    async def walk(self, queue: QueueId, begin: int, end: int) -> AsyncIterator[ReceivedMessage]:
        for message in self._queues[queue][begin:end]:
            yield message

    async def copies(self, topic: str, message_id: str) -> Any:
        return self.sent.count(message_id)


class Sends(Resender):
    """Looks as the real one does, and sends to nobody."""

    refusing: set[str]  # bodies that no broker takes

    def __init__(self, brokers: Brokers) -> None:
        super().__init__(brokers.client, brokers)  # type: ignore[arg-type]
        self._brokers = brokers
        self.refusing = set()

    async def attempt(self, message: Outgoing) -> ItemOutcome:
        found = await self.look(message)
        if found.status is BEFORE:
            return found
        if message.body.decode() in self.refusing:
            raise BrokerError(code=2, remark="busy")
        self._brokers.sent.append(message.message_id)
        return message.source.ended(SENT)


class Letters(DeadLetterFacet):
    def __init__(self, *queues: list[ReceivedMessage]) -> None:
        self.brokers = Brokers(*queues)
        fake: Any = self.brokers
        super().__init__(fake, fake, fake, fake)
        self._resender = self.sends = Sends(self.brokers)

    async def run(self, **options: Any) -> list[ItemOutcome]:
        return await self.redrive("g", **options)


def letter(offset: int, message_id: str, body: bytes = b"x", **more: Any) -> ReceivedMessage:
    made = received(body, topic="%DLQ%g", unique_id=message_id, born_ms=1_700_000_000_000 + offset, **more)
    return msgspec.structs.replace(made, offset=offset, position=offset)


def with_topic(offset: int, message_id: str, **more: Any) -> ReceivedMessage:
    return letter(offset, message_id, RETRY_TOPIC="orders", **more)


async def test_of_several_letters_the_oldest_is_sent_wherever_it_lies() -> None:
    later = [msgspec.structs.replace(with_topic(5 + n, name), offset=n) for n, name in enumerate("MN")]
    admin = Letters(later, [with_topic(0, "M"), with_topic(1, "M")])
    found = await admin.run()
    assert [(each.message_id, each.status) for each in found] == [
        ("M", SAME), ("N", SENT), ("M", SENT), ("M", SAME),
    ]  # fmt: skip
    assert len(admin.brokers.sent) == 2 and set(admin.brokers.done.values()) == {2}
    assert await admin.run() == []


async def test_a_younger_letter_that_was_sent_before_counts_for_its_message() -> None:
    """Versions that sent every letter may have been interrupted, or told to send some."""
    letters = [with_topic(0, "M"), with_topic(1, "M")]
    admin = Letters(letters)
    admin.brokers.sent = [redriven_id(letters[1].offset_message_id)]
    assert [each.status for each in await admin.run()] == [BEFORE, SAME] and len(admin.brokers.sent) == 1
    assert [each.is_redriven for each in await admin.list("g")] == [True, True]


async def test_a_letter_behind_the_progress_still_stands_for_its_message() -> None:
    letters = [with_topic(0, "M")]
    admin = Letters(letters)
    assert [each.status for each in await admin.run()] == [SENT]
    letters.append(with_topic(1, "M"))
    (found,) = await admin.run()
    assert (found.status, found.same_as) == (SAME, letters[0].offset_message_id) and len(admin.brokers.sent) == 1


async def test_a_copy_that_died_is_sent_and_what_it_was_made_from_is_not() -> None:
    first = with_topic(0, "M")
    place = first.offset_message_id
    admin = Letters([first, with_topic(1, redriven_id(place), **{REDRIVEN_FROM: place})])
    assert [each.status for each in await admin.run()] == [BEFORE, SENT]


async def test_progress_stops_at_a_letter_that_failed() -> None:
    admin = Letters([with_topic(0, "A"), with_topic(1, "B", body=b"bad"), with_topic(2, "C")])
    admin.sends.refusing = {"bad"}
    assert [each.status for each in await admin.run()] == [SENT, FAILED, SENT]
    assert list(admin.brokers.done.values()) == [1]
    admin.sends.refusing = set()
    assert [each.status for each in await admin.run()] == [SENT, BEFORE]
    assert list(admin.brokers.done.values()) == [3]


@pytest.mark.parametrize("options", [{"dry_run": True}, {"keys": ["other"]}])
async def test_what_is_only_looked_at_or_not_chosen_is_not_passed(options: dict[str, Any]) -> None:
    admin = Letters([with_topic(0, "A", keys="k")])
    await admin.run(**options)
    assert admin.brokers.sent == [] and admin.brokers.done == {}


async def test_letters_of_one_message_do_not_count_against_the_number_to_send() -> None:
    admin = Letters([with_topic(0, "A"), with_topic(1, "A"), with_topic(2, "B"), with_topic(3, "C")])
    assert [each.status for each in await admin.run(count_max=2)] == [SENT, SAME, SENT]


async def test_a_letter_that_says_no_topic_fails() -> None:
    (found,) = await Letters([letter(0, "A")]).run()
    assert found.status is FAILED and "which topic" in found.error


async def test_waiting_are_letters_that_redrives_did_not_pass_and_total_are_all() -> None:
    letters = Letters([with_topic(0, "A"), with_topic(1, "B")], [with_topic(0, "C")])
    assert await letters.count("g") == LetterCounts(waiting=3, total=3)
    await letters.run()
    assert await letters.count("g") == LetterCounts(waiting=0, total=3)


async def test_letters_of_a_queue_that_lost_its_end_are_not_taken_for_redriven() -> None:
    kept, new = with_topic(0, "A"), with_topic(1, "C")
    letters = Letters([kept, new])
    letters.brokers.sent = [redriven_id(kept.offset_message_id)]
    letters.brokers.done = {QueueId("%DLQ%g", "broker-0", 0): 5}  # as far as it went before
    assert await letters.count("g") == LetterCounts(waiting=2, total=2)
    assert [each.status for each in await letters.run()] == [BEFORE, SENT]
    assert await letters.count("g") == LetterCounts(waiting=0, total=2)


async def test_a_filter_that_does_not_exist_sends_nothing() -> None:
    letters = Letters([with_topic(0, "A")])
    with pytest.raises(TypeError):
        await letters.run(key="k")
    assert letters.brokers.sent == []
