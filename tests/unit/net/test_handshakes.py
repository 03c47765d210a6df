"""TLS handshakes take turns, slow ones are cut while others wait, and a flood of failures is few lines."""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import Any, cast

import pytest

from pyromq.net.address import Address
from pyromq.net.handshakes import SLOW_S, TRIM_AFTER, Handshakes
from pyromq.testing import ManualClock

PEER = Address("10.0.0.66", 4_711)


class Peer:
    """A socket whose handshake ends when it is told to, or cut."""

    def __init__(self, handshakes: Handshakes) -> None:
        self.began, self.done, self.cut = asyncio.Event(), asyncio.Event(), False
        self.task = asyncio.ensure_future(self._shake(handshakes))

    async def _shake(self, handshakes: Handshakes) -> None:
        async with handshakes.turn(cast(Any, self)):
            self.began.set()
            await self.done.wait()

    def shutdown(self, how: int) -> None:
        assert how == socket.SHUT_RDWR
        self.cut = True
        self.done.set()


async def test_the_next_waits_for_its_turn_and_slow_ones_make_room() -> None:
    clock = ManualClock()
    handshakes = Handshakes(clock, 2)
    slow = Peer(handshakes)
    await slow.began.wait()
    clock.advance_ms(int(SLOW_S * 1000) - 1)
    quick = Peer(handshakes)
    await quick.began.wait()
    first = Peer(handshakes)
    await asyncio.sleep(0)
    assert not first.began.is_set() and not slow.cut and len(handshakes) == 2
    clock.advance_ms(1)
    handshakes._look_again()  # the timer of the loop, whose time is another one
    second = Peer(handshakes)
    await first.began.wait()
    assert slow.cut and not quick.cut and not second.began.is_set()
    quick.done.set()
    await second.began.wait()
    for peer in (first, second):
        peer.done.set()
    await asyncio.gather(*(peer.task for peer in (slow, quick, first, second)))
    assert len(handshakes) == 0
    handshakes.close()


async def test_slow_ones_are_left_alone_while_nobody_waits() -> None:
    clock = ManualClock()
    handshakes = Handshakes(clock, 2)
    slow = Peer(handshakes)
    await slow.began.wait()
    clock.advance_ms(60_000)
    other = Peer(handshakes)
    await other.began.wait()
    assert not slow.cut
    for peer in (slow, other):
        peer.done.set()
        await peer.task


async def test_a_flood_of_failures_is_one_line_a_second_and_memory_is_returned_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock, returned = ManualClock(), list[str]()
    handshakes = Handshakes(clock, return_memory=lambda: returned.append("memory"))
    with caplog.at_level(logging.WARNING):
        for _ in range(TRIM_AFTER + 10):
            handshakes.failed(PEER, ConnectionResetError())
        clock.advance_ms(1_000)
        handshakes.failed(PEER, ConnectionResetError("gone"))
    assert [line.partition("error=")[2] for line in caplog.messages] == [
        "ConnectionResetError", f"gone others={TRIM_AFTER + 9}",
    ]  # fmt: skip
    assert handshakes._trimming is not None and returned == []
    handshakes._trim()
    await asyncio.get_running_loop().run_in_executor(None, lambda: None)  # behind it
    assert returned == ["memory"]
    handshakes.close()
