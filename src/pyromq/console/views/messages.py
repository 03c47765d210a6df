"""Messages as pages and the API show them: rows, bodies in several forms, lines of JSON, a timeline.

A line is what ``pyromq consume -o jsonl`` writes and ``pyromq send --jsonl`` takes back.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from enum import StrEnum
from typing import Any, Final

import msgspec

from pyromq.aio import ReceivedMessage
from pyromq.console.desk import Desk
from pyromq.model.failure import Failure
from pyromq.operate.explaining.explanation import Explanation, MessageState
from pyromq.operate.explaining.group_story import GroupStoryState
from pyromq.operate.reading.message_rows import MessageRow, MessageSummary, body_of, row_of, summary_fields
from pyromq.operate.reading.search import MessageQuery, Scan
from pyromq.wire.trace import TraceRecord

EXCERPT_CHARACTERS: Final = 300
BODY_SHOWN_BYTES: Final = 64 << 10  # of each form; the whole body can be saved
JSON_BYTES_MAX: Final = 1 << 20
EXPORT_MAX: Final = 100_000
_HEX_SHOWN_BYTES: Final = 4 << 10
_COMPRESSION: Final = {0: "zlib", 1: "LZ4", 2: "zstd", 3: "zlib"}
_COMPRESSED: Final = 0x1


class MessageListRow(MessageSummary, frozen=True, kw_only=True):
    """A message in a list; ``excerpt`` is how its body begins."""

    excerpt: str


class MessageView(MessageRow, frozen=True, kw_only=True):
    """A whole message. ``compression`` is how its body is stored, empty if as it is."""

    compression: str
    stored_bytes: int


class SearchView(msgspec.Struct, frozen=True, kw_only=True):
    """Newest first, and what was looked at."""

    messages: list[MessageListRow]
    scan: Scan


async def search(desk: Desk, query: MessageQuery) -> SearchView:
    """Search messages of a topic. Raises TopicNotFoundError, ConfigError."""
    found = await desk.admin.messages.search(query)
    return SearchView(messages=[list_row_of(message) for message in found.messages], scan=found.scan)


def list_row_of(message: ReceivedMessage) -> MessageListRow:
    body, problem = body_of(message)
    excerpt = body[: EXCERPT_CHARACTERS * 4].decode("utf-8", "replace")[:EXCERPT_CHARACTERS]
    return MessageListRow(**summary_fields(message, body), excerpt=f"({problem})" if problem else excerpt)


def view_of(message: ReceivedMessage) -> MessageView:
    is_compressed = bool(message.sys_flag & _COMPRESSED)
    return MessageView(
        **msgspec.structs.asdict(row_of(message)),
        compression=_COMPRESSION.get(message.sys_flag >> 8 & 0x7, "an algorithm of its own") if is_compressed else "",
        stored_bytes=len(message.packed_body),
    )


# --- bodies --------------------------------------------------------------------------------------------------------


class BodyForms(msgspec.Struct, frozen=True, kw_only=True):
    """A body for people: those of its forms that make sense, each cut to what a page can show."""

    text: str | None
    json: str | None
    hex: str
    is_cut: bool
    hex_is_cut: bool


def body_forms(body: bytes) -> BodyForms:
    text = None
    try:
        whole = body.decode()
        text = whole if len(body) <= BODY_SHOWN_BYTES else whole[:BODY_SHOWN_BYTES]
    except UnicodeDecodeError:
        pass
    return BodyForms(
        text=text,
        json=_pretty(body)[: BODY_SHOWN_BYTES * 2] if text is not None else None,
        hex="\n".join(hex_lines(body[:_HEX_SHOWN_BYTES])),
        is_cut=len(body) > BODY_SHOWN_BYTES,
        hex_is_cut=len(body) > _HEX_SHOWN_BYTES,
    )


def _pretty(body: bytes) -> str:
    """Empty if it is no JSON, or too much of it."""
    if len(body) > JSON_BYTES_MAX or body.lstrip()[:1] not in (b"{", b"["):
        return ""
    try:
        return msgspec.json.format(body, indent=2).decode()
    except (msgspec.MsgspecError, RecursionError):
        return ""


def hex_lines(body: bytes) -> Iterator[str]:
    """Sixteen bytes to a line: where, the bytes, and what is printable of them."""
    for at in range(0, len(body), 16):
        part = body[at : at + 16]
        shown = "".join(chr(byte) if 32 <= byte < 127 else "·" for byte in part)
        yield f"{at:08x}  {part.hex(' '):<47}  {shown}"


# --- export --------------------------------------------------------------------------------------------------------


async def export_lines(desk: Desk, query: MessageQuery, count_max: int) -> AsyncIterator[bytes]:
    """Lines of JSON, newest first, page after page of the same search."""
    left = min(count_max, EXPORT_MAX)
    page = msgspec.structs.replace(query, count_max=min(query.count_max, max(1, left)))
    while left > 0:
        found = await desk.admin.messages.search(page)
        for message in found.messages[:left]:
            yield msgspec.json.encode(row_of(message)) + b"\n"
        left -= len(found.messages)
        if not found.scan.cursor:
            return
        page = msgspec.structs.replace(page, cursor=found.scan.cursor)


# --- the timeline --------------------------------------------------------------------------------------------------


class EventKind(StrEnum):
    BORN = "sent"
    STORED = "stored"
    DUE = "due"
    TRACE = "trace"
    CONSUMED = "consumed"
    FAILED = "failed"
    NEXT = "comes again"


class TimelineEvent(msgspec.Struct, frozen=True, kw_only=True):
    at_ms: int
    kind: EventKind
    title: str
    text: str = ""
    is_bad: bool = False


def timeline_of(told: Explanation) -> list[TimelineEvent]:
    """What happened to a message, and what will, in order."""
    found: list[TimelineEvent] = []
    if told.born_ms:
        found.append(TimelineEvent(at_ms=told.born_ms, kind=EventKind.BORN, title="Sent by its producer"))
    if told.place is not None:
        where = f"{told.place.broker}, queue {told.place.queue}, offset {told.place.offset}"
        found.append(
            TimelineEvent(at_ms=told.place.stored_ms, kind=EventKind.STORED, title=_stored_title(told), text=where)
        )
    if told.due_ms:
        found.append(TimelineEvent(at_ms=told.due_ms, kind=EventKind.DUE, title="Due"))
    for story in told.groups:
        found += [_failed(story.group, failure) for failure in story.attempts if failure.time_ms]
        if story.consumed_ms:
            title = f"Consumed by {story.group}"
            found.append(TimelineEvent(at_ms=story.consumed_ms, kind=EventKind.CONSUMED, title=title, text=story.text))
        elif story.next_attempt_ms:
            title = f"Comes again to {story.group}"
            found.append(
                TimelineEvent(
                    at_ms=story.next_attempt_ms, kind=EventKind.NEXT, title=title, text=story.text, is_bad=True
                )
            )
    found += [event for record in told.trace if (event := _trace_event(record)) is not None]
    return sorted(found, key=lambda event: event.at_ms)


def _failed(group: str, failure: Failure) -> TimelineEvent:
    title = f"Failed in {group}" + (f", attempt {failure.attempt}" if failure.attempt else "")
    text = ": ".join(part for part in (failure.error_class, failure.text) if part)
    text += f" (version {failure.version})" if failure.version else ""
    return TimelineEvent(at_ms=failure.time_ms, kind=EventKind.FAILED, title=title, text=text, is_bad=True)


def _stored_title(told: Explanation) -> str:
    return f"Stored in {told.topic}" if told.state is MessageState.STORED else told.state.value.capitalize()


def _trace_event(record: TraceRecord) -> TimelineEvent | None:
    fields: dict[str, Any] = msgspec.structs.asdict(record)
    if not fields.get("time_ms"):
        return None
    name = type(record).__name__
    words = {"Published": "The producer had its receipt", "ConsumeBegan": "A listener got it"}
    words |= {"ConsumeEnded": "The listener returned", "Recalled": "Called back"}
    title = words.get(name, "Transaction ended")
    parts = [f"group {fields['group']}"] if fields.get("group") else []
    parts += [f"client {fields['client_host']}"] if fields.get("client_host") else []
    parts += [f"{fields['cost_ms']} ms"] if fields.get("cost_ms") else []
    parts += [f"attempt {fields['delivery_attempt'] + 1}"] if fields.get("delivery_attempt") else []
    is_bad = fields.get("is_success") is False
    parts += ["failed"] if is_bad else []
    return TimelineEvent(
        at_ms=fields["time_ms"], kind=EventKind.TRACE, title=title, text=", ".join(parts), is_bad=is_bad
    )


BADGES: Final = {
    GroupStoryState.CONSUMED: "ok",
    GroupStoryState.WAITING: "plain",
    GroupStoryState.FILTERED: "plain",
    GroupStoryState.RETRYING: "warning",
    GroupStoryState.DEAD: "bad",
    GroupStoryState.REDRIVEN: "plain",
    GroupStoryState.NOT_KNOWN: "plain",
}
"""By what a group has done with a message, how its mark looks."""
