"""Reading a range: guesses that miss, replicas, failures, messages that are gone. The broker is a table of offsets."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from pyromq.errors import ConnectFailedError, ConnectionLostError, ExpressionRefusedError
from pyromq.model.queue import QueueId
from pyromq.pipeline.arrow.layout import Records
from pyromq.pipeline.core.errors import DataLossError, SourceUnreachableError
from pyromq.pipeline.core.offsets import OffsetRange
from pyromq.pipeline.core.options import SourceOptions
from pyromq.pipeline.reading.pulls import RangeReader, RangesReader, filter_for
from pyromq.testing import ManualClock
from pyromq.wire.headers.consumer import PullHeader, PullResponseHeader
from tests.unit.pipeline.arrow.test_decode import record

QUEUE = QueueId("orders", "broker-a", 3)
OPTIONS = SourceOptions(topics=("orders",), gather_bytes=2_000, retry_ms=1_000)
FOUND, NOTHING, NO_MATCH, MOVED, REFUSED = 0, 19, 20, 21, 23


class Brokers:
    """Answers pulls from [first, end), at most ``most(offset)`` messages each; ``before`` may answer first."""

    def __init__(self, end: int, first: int = 0, most: Any = lambda offset: 4) -> None:
        self.first, self.end, self.most = first, end, most
        self.matches: Any = lambda offset: True
        self.scanned_max = 10
        self.before: Any = lambda header, address: None
        self.suggested = 0
        self.ids = {0, 1, 2}  # of those whose addresses are known
        self.asked: list[tuple[str, int, int]] = []

    def client(self) -> Any:
        async def get(topic: str, *, timeout_ms: int) -> None: ...

        return SimpleNamespace(
            wire_name=lambda name: name,
            signer=SimpleNamespace(signed=lambda header: header),
            routes=SimpleNamespace(get=get, refresh_soon=lambda topic: None),
            brokers=SimpleNamespace(
                address=lambda name, number: f"{name}:{number}" if number in self.ids else None,
                readable_address=lambda name: f"{name}:{min(self.ids)}",
                link=lambda address: SimpleNamespace(ready=_Connection(self, address)),
            ),
        )

    def answer(self, header: PullHeader, address: str) -> Any:
        self.asked.append((address, header.queue_offset, header.max_msg_nums))
        if (special := self.before(header, address)) is not None:
            return special
        at = header.queue_offset
        if at < self.first or at > self.end:
            return self._made(MOVED, max(self.first, min(at, self.end)))
        if at == self.end:
            return self._made(NOTHING, at)
        body, taken = b"", 0
        while at < self.end and taken < min(header.max_msg_nums, self.most(header.queue_offset)):
            if at - header.queue_offset >= self.scanned_max:
                break
            if self.matches(at):
                body, taken = body + record(at), taken + 1
            at += 1
        return self._made(FOUND if taken else NO_MATCH, at, body)

    def _made(self, code: int, next_offset: int, body: bytes = b"") -> Any:
        header = PullResponseHeader(
            suggest_which_broker_id=self.suggested, next_begin_offset=next_offset, min_offset=self.first,
            max_offset=self.end,
        )  # fmt: skip
        return SimpleNamespace(code=code, body=body, remark="", header_as=lambda kind: header)


class _Connection:
    def __init__(self, brokers: Brokers, address: str) -> None:
        self._brokers, self._address = brokers, address

    def request_nowait(self, code: int, header: PullHeader, *, timeout_ms: int) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        response = self._brokers.answer(header, self._address)
        future.set_exception(response) if isinstance(response, Exception) else future.set_result(response)
        return future


async def read(brokers: Brokers, start: int, end: int, **options: Any) -> list[int]:
    """Offsets, in the order they came."""
    clock = ManualClock()

    async def sleep(seconds: float) -> None:
        clock.advance_ms(round(seconds * 1000))

    chosen, wanted = replace(OPTIONS, **options), OffsetRange(QUEUE, start, end)
    reader = RangeReader(brokers.client(), chosen, wanted, clock=clock, sleep=sleep)
    found: list[int] = []
    while not reader.is_done:
        found += Records(b"".join(await reader.gather())).queue_offsets.tolist()
    return found


async def test_a_range_is_read_in_order_with_several_pulls_at_once() -> None:
    brokers = Brokers(100)
    assert await read(brokers, 7, 93) == list(range(7, 93))
    assert len(brokers.asked) < 30


@pytest.mark.parametrize("most", [1, 3, 1000])
async def test_responses_of_any_length(most: int) -> None:
    assert await read(Brokers(60, most=lambda offset: most), 0, 60) == list(range(60))


async def test_guesses_that_miss_are_asked_again() -> None:
    brokers = Brokers(200, most=lambda offset: 1 + offset * 7 % 5)
    assert await read(brokers, 0, 200) == list(range(200))


async def test_longer_responses_are_noticed() -> None:
    brokers = Brokers(2_000, most=lambda offset: 2 if offset < 20 else 10)
    assert await read(brokers, 0, 2_000) == list(range(2_000))
    assert len(brokers.asked) < 300


async def test_with_a_filter_pulls_follow_each_other() -> None:
    brokers = Brokers(100)
    brokers.matches = lambda offset: offset % 7 == 0
    found = await read(brokers, 0, 50, tags="red")
    assert [offset for offset in found if offset < 50] == list(range(0, 50, 7))
    places = [offset for _, offset, _ in brokers.asked]
    assert places == sorted(set(places))


async def test_a_replica_is_asked_when_the_broker_suggests_it() -> None:
    brokers = Brokers(20)
    brokers.suggested = 1
    assert await read(brokers, 0, 20, gather_bytes=1) == list(range(20))
    assert [address for address, _, _ in brokers.asked][:2] == ["broker-a:0", "broker-a:1"]


async def test_a_replica_that_is_behind_a_dead_master_is_no_loss() -> None:
    """Nothing is skipped, whatever ``failOnDataLoss`` says: the master may come back with the rest."""
    brokers = Brokers(10)
    brokers.ids = {1}
    with pytest.raises(SourceUnreachableError, match=r"finds no message at offset 10 of \[0, 10\)"):
        await read(brokers, 0, 20, fail_on_data_loss=False)

    def comes_back(header: PullHeader, address: str) -> None:
        brokers.ids, brokers.end = {0, 1}, 20

    brokers.before = comes_back
    assert await read(brokers, 0, 20, fail_on_data_loss=False) == list(range(20))


async def test_a_replica_that_is_behind_is_no_loss() -> None:
    brokers = Brokers(20)
    brokers.suggested = 1
    late = Brokers(4)
    brokers.before = lambda header, address: late.answer(header, address) if address.endswith("1") else None
    assert await read(brokers, 0, 20, gather_bytes=1) == list(range(20))


async def test_failures_are_tried_again() -> None:
    brokers = Brokers(40)
    failures = [ConnectionLostError("gone"), ConnectFailedError("still gone")]
    brokers.before = lambda header, address: failures.pop() if header.queue_offset >= 12 and failures else None
    assert await read(brokers, 0, 40) == list(range(40))
    assert not failures


async def test_every_success_renews_the_retry_window() -> None:
    brokers, failed = Brokers(200), set[int]()

    def fail_once_everywhere(header: PullHeader, address: str) -> Exception | None:
        if header.queue_offset in failed:
            return None
        failed.add(header.queue_offset)
        return ConnectionLostError("gone")

    brokers.before = fail_once_everywhere
    assert await read(brokers, 0, 200, gather_bytes=1, tags="red", retry_ms=100) == list(range(200))
    assert len(failed) > 10


async def test_failures_that_stay_end_the_read() -> None:
    brokers = Brokers(40)
    brokers.before = lambda header, address: ConnectionLostError("gone") if header.queue_offset >= 12 else None
    with pytest.raises(SourceUnreachableError, match=r"reading queue 3 of topic orders .* gone"):
        await read(brokers, 0, 40)


async def test_a_refusal_ends_the_read_at_once() -> None:
    brokers = Brokers(40)
    brokers.before = lambda header, address: SimpleNamespace(code=REFUSED, remark="no such function")
    with pytest.raises(ExpressionRefusedError, match="no such function"):
        await read(brokers, 0, 40, sql="f(x)")
    assert len(brokers.asked) == 1


async def test_a_response_that_leads_nowhere_does_not_loop_for_ever() -> None:
    brokers = Brokers(40)
    brokers.before = lambda header, address: brokers._made(FOUND, header.queue_offset)
    with pytest.raises(SourceUnreachableError, match="points back to 0"):
        await read(brokers, 0, 40)


async def test_what_is_gone_from_the_beginning_is_an_error_or_skipped(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(DataLossError, match="begins at 15 now, offsets 3 to 15 are gone"):
        await read(Brokers(40, first=15), 3, 30)
    assert await read(Brokers(40, first=15), 3, 30, fail_on_data_loss=False) == list(range(15, 30))
    assert "offsets 3 to 15 are gone" in caplog.text


async def test_what_is_gone_from_the_end_is_an_error_or_skipped() -> None:
    with pytest.raises(DataLossError, match="ends at 20 now, offsets 20 to 30 are gone"):
        await read(Brokers(20), 3, 30)
    assert await read(Brokers(20), 3, 30, fail_on_data_loss=False) == list(range(3, 20))
    assert await read(Brokers(2), 3, 30, fail_on_data_loss=False) == []


async def test_ranges_are_read_one_after_the_other() -> None:
    ranges = [OffsetRange(QUEUE, 0, 5), OffsetRange(QUEUE, 5, 5), OffsetRange(QUEUE, 90, 99)]
    reader, found = RangesReader(Brokers(100).client(), OPTIONS, ranges), []
    while (gathered := await reader.gather()) is not None:
        found += Records(b"".join(gathered.parts)).queue_offsets.tolist()
    assert found == [*range(5), *range(90, 99)]


def test_retries_are_read_whole() -> None:
    options = SourceOptions(tags="red || blue", group="g")
    assert filter_for(options, "orders").tags == {"red", "blue"}
    assert filter_for(options, "%RETRY%g").is_open
    assert filter_for(SourceOptions(sql="a > 1"), "orders").kind == "SQL92"
    assert filter_for(SourceOptions(tags="*"), "orders").is_open
