"""Journal: what producers and groups did at a broker, in order, with the broker's time.

Two witnesses write it: the wire (sends that were stored and acknowledged, deliveries, send-backs, commits; of every
client, wherever it runs) and the listeners of push consumers of this process (when they began, how they ended).
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Final

import msgspec

from pyromq.client.core.received_message import ReceivedMessage

EVENTS_MAX: Final = 100_000  # more than that, or than that many bytes of messages: the oldest are forgotten
BYTES_MAX: Final = 64 << 20


class JournalEventKind(StrEnum):
    STORED = "stored"  # and its producer does not know it
    ACKNOWLEDGED = "acknowledged"
    DELIVERED = "delivered"
    BEGAN = "began"  # a listener has it
    CONSUMED = "consumed"
    SKIPPED = "skipped"  # it was consumed before, and its listener was not called
    FAILED = "failed"
    SENT_BACK = "sent back"
    COMMITTED = "committed"
    FAULT = "fault"
    LIFE = "life"  # of the broker


class JournalEvent(msgspec.Struct, frozen=True, gc=False):
    """``message`` is the copy that it is about; ``text`` says what there is to say besides."""

    at_ms: int
    kind: JournalEventKind
    group: str = ""
    topic: str = ""
    message: ReceivedMessage | None = None
    text: str = ""


class Journal:
    """Appended by any thread, read by the test."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._events: deque[JournalEvent] = deque()
        self._bytes = 0  # of messages
        self._lock = threading.Lock()
        self.forgotten = 0  # events
        self.began_ms = now_ms()

    def add(
        self,
        kind: JournalEventKind,
        *,
        group: str = "",
        topic: str = "",
        message: ReceivedMessage | None = None,
        text: str = "",
    ) -> None:
        with self._lock:
            self._events.append(JournalEvent(self._now_ms(), kind, group, topic, message, text))
            self._bytes += message.size_bytes if message is not None else 0
            while len(self._events) > EVENTS_MAX or self._bytes > BYTES_MAX:
                oldest = self._events.popleft().message
                self._bytes -= oldest.size_bytes if oldest is not None else 0
                self.forgotten += 1

    def __iter__(self) -> Iterator[JournalEvent]:
        with self._lock:
            return iter(list(self._events))

    def of(self, *kinds: JournalEventKind, group: str | None = None) -> list[JournalEvent]:
        """Those of a group; without one, of everybody."""
        return [event for event in self if event.kind in kinds and (group is None or event.group == group)]

    def lines(self, *, group: str = "", topic: str = "", lines_max: int = 60) -> list[str]:
        """For people: the last of what a group, or everybody, did."""
        shown = [event for event in self if _concerns(event, group, topic)]
        lines = [self._line(event) for event in shown[-lines_max:]]
        left_out = self.forgotten + len(shown) - len(lines)
        return [f"  … {left_out} earlier events", *lines] if left_out > 0 else lines

    def _line(self, event: JournalEvent) -> str:
        at_s = (event.at_ms - self.began_ms) / 1000
        what = f"  {at_s:>12,.3f} s  {event.kind:<13} {event.group:<12} "
        shown = [_reported(event.message)] if event.message is not None else []
        return (what + "  ".join([*shown, *([event.text] if event.text else [])])).rstrip()


def _concerns(event: JournalEvent, group: str, topic: str) -> bool:
    if event.kind in (JournalEventKind.FAULT, JournalEventKind.LIFE):
        return True
    if group and event.group != group:
        return False
    return not topic or not event.topic or event.topic == topic


def _reported(message: ReceivedMessage) -> str:
    body = repr(message.body[:24])[1:] + ("…" if len(message.body) > 24 else "")
    keys = f" keys={','.join(message.keys)}" if message.keys else ""
    attempt = f" attempt={message.delivery_attempt}" if message.delivery_attempt else ""
    return f"{message.stored_topic}/{message.queue_id}@{message.offset} {body}{keys}{attempt}"
