"""Rows of the Spark source as outgoing copies; ``operate.resend`` sends them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, Protocol

from pyromq.operate.resend.outcomes import ItemOutcome, ItemStatus
from pyromq.operate.resend.outgoing import Item, Outgoing, copied_properties

COLUMNS: Final = ("topic", "message_id", "offset_message_id", "keys", "tags", "flag", "properties", "body")
"""What of a message it takes to send it again."""


class SparkRow(Protocol):
    """A row of a DataFrame, or a plain dict."""

    def __getitem__(self, column: str, /) -> Any: ...


def source_of(row: SparkRow, status: ItemStatus = ItemStatus.WOULD_SEND, **more: Any) -> ItemOutcome:
    """Return the item that a row with the columns above is."""
    return ItemOutcome(
        message_id=row["message_id"] or "",
        offset_message_id=row["offset_message_id"],
        keys=row["keys"] or "",
        tags=row["tags"] or "",
        status=status,
        **more,
    )


def outgoing(
    row: SparkRow,
    topic: str,
    message_id: str,
    marks: Sequence[tuple[str, str]],
    *,
    sent_to: Iterable[str] = (),
    is_checked: bool = True,
) -> Item:
    """Return the copy to send for a row, with ``marks`` as properties; an outcome if it cannot be sent."""
    body = row["body"]
    if not body:
        reason = "its body is empty" if body is not None else "its body cannot be decompressed"
        return source_of(row, to_topic=topic).ended(ItemStatus.FAILED, reason)
    return Outgoing(
        source=source_of(row, to_topic=topic, new_message_id=message_id),
        topic=topic,
        message_id=message_id,
        body=bytes(body),
        properties=copied_properties(row["properties"], message_id, marks),
        flag=row["flag"] or 0,
        sent_to=tuple(dict.fromkeys(sent_to)),
        is_checked=is_checked,
    )
