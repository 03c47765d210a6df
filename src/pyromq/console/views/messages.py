"""Messages as pages and the API show them: rows, bodies in several forms, lines of JSON.

A line is what ``pyromq consume -o jsonl`` writes and ``pyromq send --jsonl`` takes back.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, Final

import msgspec

from pyromq.aio import ReceivedMessage
from pyromq.console.desk import Desk
from pyromq.console.views.times import read_moment
from pyromq.operate.explaining.group_story import GroupStoryState
from pyromq.operate.reading.message_rows import MessageRow, MessageSummary, body_of, row_of, summary_fields
from pyromq.operate.reading.search import COUNT_MAX, SCAN_MAX, MessageQuery, Scan
from pyromq.operate.reading.typed_views import DecodedBody

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


def query_of(given: Mapping[str, str], now_ms: int) -> MessageQuery:
    """What the address of a search says; the same address finds the same again. Raises ConfigError."""
    begin_ms, end_ms = read_moment(given.get("begin", ""), now_ms), read_moment(given.get("end", ""), now_ms)
    more: dict[str, Any] = {} if end_ms is None else {"end_ms": end_ms}
    return MessageQuery(
        topic=given.get("topic", "").strip(),
        message_id=given.get("id", "").strip(),
        key=given.get("key", "").strip(),
        tag=given.get("tag", "").strip(),
        sql=given.get("sql", "").strip(),
        text=given.get("text", ""),
        begin_ms=begin_ms or 0,
        queue=given.get("queue", "").strip(),
        count_max=whole_number(given.get("count", ""), 50, COUNT_MAX),
        scan_max=whole_number(given.get("scan", ""), 5_000, SCAN_MAX),
        cursor=given.get("cursor", ""),
        **more,
    )


def whole_number(text: str, default: int, most: int) -> int:
    return min(int(text), most) if text.isascii() and text.isdigit() and len(text) < 8 and int(text) else default


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
    """A body for people: those of its forms that make sense, each cut to what a page can show.

    ``decoded`` is what it says by the schema of its topic, which ``schema`` names; ``schema_problem`` why it says
    nothing by it.
    """

    text: str | None
    json: str | None
    hex: str
    is_cut: bool
    hex_is_cut: bool
    schema: str = ""
    schema_problem: str = ""
    decoded: str = ""


def body_forms(body: bytes, by_schema: DecodedBody | None = None) -> BodyForms:
    """The forms of a body; ``by_schema`` is what the schema of its topic makes of it."""
    text = None
    try:
        whole = body.decode()
        text = whole if len(body) <= BODY_SHOWN_BYTES else whole[:BODY_SHOWN_BYTES]
    except UnicodeDecodeError:
        pass
    return BodyForms(
        text=text,
        json=pretty_json(body)[: BODY_SHOWN_BYTES * 2] if text is not None else None,
        hex="\n".join(hex_lines(body[:_HEX_SHOWN_BYTES])),
        is_cut=len(body) > BODY_SHOWN_BYTES,
        hex_is_cut=len(body) > _HEX_SHOWN_BYTES,
        schema=by_schema.schema if by_schema else "",
        schema_problem=by_schema.problem if by_schema else "",
        decoded=pretty_json(by_schema.text.encode())[: BODY_SHOWN_BYTES * 2] if by_schema else "",
    )


def pretty_json(body: bytes) -> str:
    """Return JSON with a line for each value; empty if it is no JSON, or too much of it."""
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


# --- marks -----------------------------------------------------------------------------------------------------------


BADGES: Final = {
    GroupStoryState.CONSUMED: "ok",
    GroupStoryState.WAITING: "plain",
    GroupStoryState.FILTERED: "plain",
    GroupStoryState.RETRYING: "warning",
    GroupStoryState.IN_FLIGHT: "accent",
    GroupStoryState.DEAD: "bad",
    GroupStoryState.REDRIVEN: "plain",
    GroupStoryState.NOT_KNOWN: "plain",
}
"""By what a group has done with a message, how its mark looks."""
