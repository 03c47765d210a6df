"""Streams of server-sent events: bounded in number, with a beat while nothing happens, over when their session is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from starlette.responses import StreamingResponse

from pyromq.console.web.problems import TooManyError

if TYPE_CHECKING:
    from pyromq.console.desk import Desk

BEAT_S: Final = 10.0
_WAIT_MS: Final = 5_000
_BEAT: Final = b": beat\n\n"


@dataclass(frozen=True, slots=True)
class Event:
    """``data`` may have several lines; ``id`` comes back as Last-Event-ID when a browser connects again."""

    name: str
    data: str
    id: str = ""

    def encoded(self) -> bytes:
        lines = [f"event: {self.name}"]
        if self.id:
            lines.append(f"id: {self.id}")
        lines += [f"data: {line}" for line in self.data.replace("\r\n", "\n").replace("\r", "\n").split("\n")]
        return ("\n".join(lines) + "\n\n").encode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class Events:
    """What a handler returns to stream; the iterator is closed when the browser leaves."""

    source: AsyncIterator[Event]


def stream_response(events: Events, desk: Desk, is_welcome: Callable[[], bool]) -> StreamingResponse:
    """Stream events to a browser; ``is_welcome`` is checked at every beat and event. Raises TooManyError when too many
    are open.
    """
    if desk.streams_open >= desk.settings.streams_max:
        text = f"{desk.settings.streams_max} streams are open already: close some pages"
        raise TooManyError(text, wait_ms=_WAIT_MS)
    return StreamingResponse(_encoded(events.source, desk, is_welcome), media_type="text/event-stream")


async def _encoded(source: AsyncIterator[Event], desk: Desk, is_welcome: Callable[[], bool]) -> AsyncIterator[bytes]:
    desk.streams_open += 1
    following: asyncio.Task[Event] | None = None
    closing = asyncio.ensure_future(desk.closing.wait())
    try:
        yield _BEAT  # the browser knows at once that it is connected
        while is_welcome() and not closing.done():
            following = following or asyncio.ensure_future(_next_of(source))
            await asyncio.wait([following, closing], timeout=BEAT_S, return_when=asyncio.FIRST_COMPLETED)
            if not following.done():
                yield _BEAT
                continue
            try:
                event = following.result()
            except StopAsyncIteration:
                return
            following = None
            yield event.encoded()
    finally:
        desk.streams_open -= 1
        closing.cancel()
        if following is not None:
            following.cancel()
            with suppress(asyncio.CancelledError, StopAsyncIteration):
                await following
        if (close := getattr(source, "aclose", None)) is not None:
            await close()


async def _next_of(source: AsyncIterator[Event]) -> Event:
    return await anext(source)
