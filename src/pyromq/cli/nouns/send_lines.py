"""Lines of standard input as messages: sent in order with many under way, told by their line numbers.

The first line that fails ends the sending. Lines behind it that were under way may be stored all the same, so going on
from that line sends a few of them twice: at least once, as all sends.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pyromq.errors import ConfigError, MQError

if TYPE_CHECKING:
    from pyromq.aio import Message, Producer, SendReceipt

WINDOW: Final = 512  # lines that wait for their receipts
_READ_BYTES: Final = 1 << 16
_CHUNKS_MAX: Final = 4  # read ahead of what is sent


@dataclass
class LineReport:
    """How far it came. ``sent`` counts lines with a receipt, ``sent_behind`` those of them behind the first failure."""

    first: int = 1  # where it began
    sent: int = 0
    blank: int = 0
    sent_behind: int = 0
    failed_line: int = 0  # 0: none
    error: MQError | None = None
    resume_at: int = field(default=1)  # every line before this one is sent, or was blank

    def text(self) -> str:
        """In words, with the way to go on if there is one."""
        sentence = f"{self.sent} line{'' if self.sent == 1 else 's'} sent"
        sentence += f", {self.blank} blank passed over" if self.blank else ""
        behind = f" ({self.sent_behind} behind it were sent already and come twice)" if self.sent_behind else ""
        return f"{sentence}; go on with --from-line {self.resume_at}{behind}"


class LineSender:
    """Sends lines through a producer; ``show(line_number, receipt)`` is called in the order of the lines."""

    def __init__(
        self, producer: Producer, message_of: Callable[[bytes], Message], show: Callable[[int, SendReceipt], None]
    ) -> None:
        self._producer = producer
        self._message_of = message_of
        self._show = show

    async def send(self, lines: AsyncIterator[bytes], report: LineReport, *, skip_blank: bool) -> None:
        """All lines from ``report.first`` on; ends at the first that fails, which the report says."""
        under_way: asyncio.Queue[tuple[int, asyncio.Future[SendReceipt]] | None] = asyncio.Queue(WINDOW)
        settling = asyncio.create_task(self._settle(under_way, report))
        number, is_first = 0, True
        try:
            async for line in lines:
                number += 1
                if number < report.first:
                    continue
                if report.failed_line or settling.done():
                    break
                if skip_blank and not line.strip():
                    report.blank += 1
                    continue
                outcome, is_ordered = self._begin(line)
                await under_way.put((number, outcome))
                if is_first or is_ordered:  # the first learns the route; the others need not, and keep their order
                    await asyncio.wait([outcome])
                    is_first = False
                if outcome.done() and outcome.exception() is not None:
                    break
            await under_way.put(None)
            await settling
        finally:
            settling.cancel()
        if not report.failed_line:
            report.resume_at = number + 1

    def _begin(self, line: bytes) -> tuple[asyncio.Future[SendReceipt], bool]:
        """Also whether the next line has to wait for it: one with the same sharding key must not overtake it."""
        try:
            message = self._message_of(line)
            if message.sharding_key:
                return asyncio.ensure_future(self._producer.send(message)), True
            return self._producer.send_nowait(message), False
        except MQError as error:  # told in its turn, after the lines before it
            refused: asyncio.Future[SendReceipt] = asyncio.get_running_loop().create_future()
            refused.set_exception(error)
            return refused, False

    async def _settle(
        self, under_way: asyncio.Queue[tuple[int, asyncio.Future[SendReceipt]] | None], report: LineReport
    ) -> None:
        while (item := await under_way.get()) is not None:
            number, outcome = item
            try:
                receipt = await outcome
            except MQError as error:
                if not report.failed_line:
                    report.failed_line, report.error = number, error
                continue
            report.sent += 1
            if report.failed_line:
                report.sent_behind += 1
            else:
                report.resume_at = number + 1
            self._show(number, receipt)


async def lines_from(descriptor: int, line_bytes_max: int) -> AsyncIterator[bytes]:
    """The lines of a file or pipe as soon as they are there, without their ends.

    A line that is longer than any message is cut there and is the last one. A thread reads, since a pipe may be silent
    for long; it is a daemon, so that Ctrl-C need not wait for it. Raises ConfigError when the input cannot be read.
    """
    loop, chunks = asyncio.get_running_loop(), asyncio.Queue[bytes | OSError](_CHUNKS_MAX)

    def read() -> None:
        with suppress(RuntimeError, CancelledError):  # the loop has ended before the input
            data: bytes | OSError = b"-"
            while data and not isinstance(data, OSError):
                try:
                    data = os.read(descriptor, _READ_BYTES)
                except OSError as error:
                    data = error
                asyncio.run_coroutine_threadsafe(chunks.put(data), loop).result()

    threading.Thread(target=read, name="standard input", daemon=True).start()
    rest = b""
    while data := await chunks.get():
        if isinstance(data, OSError):
            raise ConfigError(f"standard input cannot be read: {data}") from data
        *whole, rest = (rest + data).split(b"\n")
        for line in whole:
            yield line.removesuffix(b"\r")
        if len(rest) > line_bytes_max + 1:
            break
    if rest:
        yield rest
