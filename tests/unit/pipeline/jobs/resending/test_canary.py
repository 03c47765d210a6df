"""A canary, judged without Spark and brokers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import Any, cast

import msgspec
import pytest

from pyromq.operate.resend.outcomes import ItemOutcome, ItemStatus
from pyromq.operate.resend.outgoing import Outgoing
from pyromq.pipeline.jobs.resending.canary import Canary, CanaryVerdict, send_canary
from pyromq.testing import ManualClock


def letter(number: int) -> Outgoing:
    source = ItemOutcome(
        message_id=f"M{number}", offset_message_id=f"O{number}", keys="", status=ItemStatus.SENT, to_topic="orders",
        new_message_id=f"N{number}", to_queue="broker-a:0", to_offset=number,
    )  # fmt: skip
    return Outgoing(source=source, topic="orders", message_id=f"N{number}", body=b"x", properties=())


NEVER_A_MESSAGE = ItemOutcome(
    message_id="P", offset_message_id="P", keys="", status=ItemStatus.FAILED, to_topic="orders", error="its patch"
)  # fmt: skip


class Brokers:
    """Stands for a PacedSender: dead letters with these numbers were sent before, or are refused."""

    def __init__(self, *, before: Iterable[int] = (), refused: Iterable[int] = (), committed: int = 0) -> None:
        self.before = set(before)
        self.refused = set(refused)
        self.looks = 0  # how often the group's progress was asked for
        self._committed = committed

    def send_all(self, messages: Iterable[Outgoing | ItemOutcome]) -> Iterator[ItemOutcome]:
        for each in messages:
            yield each if isinstance(each, ItemOutcome) else self._sent(each)

    def _sent(self, message: Outgoing) -> ItemOutcome:
        number = int(message.message_id[1:])
        outcome = ItemStatus.SENT_BEFORE if number in self.before else ItemStatus.SENT
        outcome = ItemStatus.FAILED if number in self.refused else outcome
        return msgspec.structs.replace(message.source, status=outcome)

    @property
    def admin(self) -> Any:
        return self

    @property
    def connected(self) -> Any:
        return self

    def call(self, work: Any) -> Any:
        return asyncio.run(work)

    @property
    def client(self) -> Any:
        return self

    @property
    def offsets(self) -> Any:
        return self

    def wire_name(self, name: str) -> str:
        return name

    async def committed(self, group: str, queue: Any) -> int:
        self.looks += 1
        return self._committed


class Watched(Canary):
    """Without the look at topics."""

    def _came_back(self, sent: Any) -> bool:
        return False


def verdict(
    brokers: Brokers, first: list[ItemOutcome], *, wait_s: float = 0, clock: ManualClock | None = None
) -> CanaryVerdict:
    clock = clock or ManualClock()

    def sleep(seconds: float) -> None:
        clock.advance_ms(round(1000 * seconds))

    return Watched(cast(Any, brokers), "g", wait_s, sleep, clock).verdict(first)


def test_what_was_sent_before_is_no_canary() -> None:
    brokers, letters = Brokers(before=range(3)), iter([letter(number) for number in range(9)])
    first = send_canary(cast(Any, brokers), letters, 2)
    assert [each.status for each in first] == [ItemStatus.SENT_BEFORE] * 3 + [ItemStatus.SENT] * 2
    assert next(letters) == letter(5), "the others wait"


def test_a_canary_ends_with_the_first_message_that_brokers_refuse() -> None:
    brokers, letters = Brokers(refused=[1]), iter([letter(number) for number in range(9)])
    first = send_canary(cast(Any, brokers), letters, 2)
    assert len(first) == 2 and verdict(brokers, first) is CanaryVerdict.NOT_SENT


def test_a_dead_letter_that_was_never_a_message_says_nothing_about_the_others() -> None:
    brokers = Brokers(committed=1)
    first = send_canary(cast(Any, brokers), iter([NEVER_A_MESSAGE, letter(0), letter(1)]), 1)
    assert len(first) == 2 and verdict(brokers, first) is CanaryVerdict.PASSED


@pytest.mark.parametrize(
    ("committed", "expected"), [(1, CanaryVerdict.NOT_CONSUMED), (2, CanaryVerdict.PASSED), (9, CanaryVerdict.PASSED)]
)
def test_every_message_of_a_canary_has_to_be_consumed(committed: int, expected: CanaryVerdict) -> None:
    brokers = Brokers(committed=committed)
    first = send_canary(cast(Any, brokers), iter([letter(0), letter(1)]), 2)
    assert verdict(brokers, first) is expected and expected.is_bad is (expected is CanaryVerdict.NOT_CONSUMED)


def test_a_run_that_finds_everything_sent_needs_no_canary() -> None:
    brokers = Brokers(before=range(3))
    first = send_canary(cast(Any, brokers), iter([letter(number) for number in range(3)]), 2)
    assert len(first) == 3 and verdict(brokers, first) is CanaryVerdict.NOT_NEEDED


def test_a_canary_is_watched_for_as_long_as_it_may_take_and_no_longer() -> None:
    brokers, clock = Brokers(committed=0), ManualClock()
    before_ms = clock.monotonic_ms()
    first = send_canary(cast(Any, brokers), iter([letter(0)]), 1)
    assert verdict(brokers, first, wait_s=3, clock=clock) is CanaryVerdict.NOT_CONSUMED
    assert clock.monotonic_ms() - before_ms == 3_000 and brokers.looks == 7
