"""Lines as messages: in order, many under way, the first failure told by its line."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from pyromq import Message
from pyromq.cli.nouns.send_lines import WINDOW, LineReport, LineSender, lines_from
from pyromq.errors import ConfigError, TransportError


class Producer:
    """Confirms when told to; refuses empty bodies, and fails with what ``failing`` names."""

    def __init__(self, *failing: bytes) -> None:
        self.begun: list[bytes] = []
        self.waiting: list[tuple[bytes, asyncio.Future[Any]]] = []
        self.failing = failing
        self.most = 0
        self.alone: list[bool] = []  # of each line: whether those before it were confirmed

    def send_nowait(self, message: Message) -> asyncio.Future[Any]:
        return self._begin(message.body)

    async def send(self, message: Message) -> Any:
        return await self._begin(message.body)

    def _begin(self, line: bytes) -> asyncio.Future[Any]:
        self.begun.append(line)
        self.alone.append(not self.waiting)
        outcome: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.waiting.append((line, outcome))
        self.most = max(self.most, len(self.waiting))
        asyncio.get_running_loop().call_soon(self._confirm)
        return outcome

    def _confirm(self) -> None:
        line, outcome = self.waiting.pop()  # the newest first: receipts come in the order of lines all the same
        if line in self.failing:
            outcome.set_exception(TransportError("gone"))
        else:
            outcome.set_result(line)


def message_of(line: bytes) -> Message:
    """A line with a colon says its sharding key first."""
    return Message("t", line, sharding_key=line.partition(b":")[0].decode() if b":" in line else "")


async def given(*lines: bytes) -> AsyncIterator[bytes]:
    for line in lines:
        yield line


async def sent(
    lines: AsyncIterator[bytes], producer: Producer, *, first: int = 1, skip_blank: bool = False
) -> tuple[LineReport, list[tuple[int, Any]]]:
    report, shown = LineReport(first=first, resume_at=first), list[tuple[int, Any]]()
    sender = LineSender(producer, message_of, lambda number, receipt: shown.append((number, receipt)))  # type: ignore[arg-type]
    async with asyncio.timeout(60):
        await sender.send(lines, report, skip_blank=skip_blank)
    return report, shown


async def test_receipts_come_in_the_order_of_lines_with_many_under_way() -> None:
    producer, lines = Producer(), [b"%d" % number for number in range(1, 3 * WINDOW)]
    report, shown = await sent(given(*lines), producer)
    assert shown == list(enumerate(lines, 1)) and producer.begun == lines
    assert (report.sent, report.failed_line, report.resume_at) == (len(lines), 0, len(lines) + 1)
    assert 100 < producer.most <= WINDOW + 2


async def test_lines_with_a_sharding_key_wait_for_the_one_before() -> None:
    producer = Producer()
    _, shown = await sent(given(b"1", b"a:1", b"a:2", b"b:1", b"2", b"3"), producer)
    assert [line for _, line in shown] == [b"1", b"a:1", b"a:2", b"b:1", b"2", b"3"]
    assert producer.alone == [True, True, True, True, True, False]


async def test_the_first_line_goes_alone_also_behind_blank_ones() -> None:
    """It learns the route; without one each send would wait for it by itself, and order would be chance."""
    for lines in ([b"1", b"2", b"3"], [b"", b" ", b"1", b"2", b"3"]):
        producer = Producer()
        await sent(given(*lines), producer, skip_blank=True)
        assert producer.begun == [b"1", b"2", b"3"] and producer.alone == [True, True, False]


async def test_the_first_line_that_fails_ends_it_and_is_named() -> None:
    report, shown = await sent(given(b"a", b"b", b"bad", b"c", b"d"), Producer(b"bad"))
    assert (report.failed_line, report.resume_at, str(report.error)) == (3, 3, "gone")
    assert [number for number, _ in shown] == [1, 2, 4, 5] and (report.sent, report.sent_behind) == (4, 2)
    assert report.text() == "4 lines sent; go on with --from-line 3 (2 behind it were sent already and come twice)"


async def test_nothing_behind_a_refused_line_is_sent() -> None:
    producer = Producer()
    report, _ = await sent(given(b"a", b"b", b"", b"c"), producer)
    assert (report.failed_line, report.sent, report.sent_behind, producer.begun) == (3, 2, 0, [b"a", b"b"])
    assert report.text() == "2 lines sent; go on with --from-line 3"


async def test_blank_lines_are_passed_over_and_counted_as_lines() -> None:
    report, shown = await sent(given(b"a", b"", b" \t", b"b"), Producer(), skip_blank=True)
    assert [number for number, _ in shown] == [1, 4] and (report.blank, report.resume_at) == (2, 5)


async def test_it_goes_on_where_it_is_told_to() -> None:
    producer = Producer()
    report, shown = await sent(given(b"a", b"b", b"c"), producer, first=3)
    assert (shown, producer.begun, report.sent, report.resume_at) == ([(3, b"c")], [b"c"], 1, 4)


def write_and_close(descriptor: int, *parts: bytes) -> threading.Thread:
    def write() -> None:
        for part in parts:
            os.write(descriptor, part)
        os.close(descriptor)

    thread = threading.Thread(target=write)
    thread.start()
    return thread


async def test_lines_are_cut_at_their_ends_wherever_reads_end() -> None:
    reader, writer = os.pipe()
    thread = write_and_close(writer, b"o", b"ne\ntw", b"o\r\n\nlast")
    assert [line async for line in lines_from(reader, 100)] == [b"one", b"two", b"", b"last"]
    thread.join()
    os.close(reader)


async def test_an_input_that_cannot_be_read_is_an_error_and_not_waited_for() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    os.close(writer)
    with pytest.raises(ConfigError, match=r"standard input cannot be read: .*Bad file descriptor"):
        [line async for line in lines_from(reader, 100)]


async def test_a_line_longer_than_any_message_is_the_last_one() -> None:
    reader, writer = os.pipe()
    thread = write_and_close(writer, b"a\n", b"x" * 5_000, b"\nb\n")
    lines = [line async for line in lines_from(reader, 1_000)]
    thread.join()
    os.close(reader)
    assert lines[0] == b"a" and len(lines[1]) > 1_000
