"""Trace records as rows, with the same columns for every kind of record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyromq.cli.output.tables import Column
from pyromq.cli.output.times import show_time

if TYPE_CHECKING:
    from pyromq.wire.trace import TraceRecord

TRACE_COLUMNS = (
    Column("time_ms", "time", show=show_time, whole=True),
    Column("event", "event", whole=True),
    Column("group", "group"),
    Column("result", "result", styles={"ok": "green", "failed": "bold red"}, whole=True),
    Column("cost_ms", "ms", right=True),
    Column("client_host", "client", optional=True),
    Column("detail", "detail", optional=True),
)


def trace_row(record: TraceRecord) -> dict[str, Any]:
    """All fields of a record, and the columns that every kind has."""
    import msgspec

    fields = msgspec.structs.asdict(record)
    event = msgspec.inspect.type_info(type(record)).tag  # type: ignore[attr-defined]
    is_success = fields.get("is_success")
    result = "" if is_success is None else "ok" if is_success else "failed"
    return {**fields, "event": event, "result": result, "detail": _detail(fields)}


def _detail(fields: dict[str, Any]) -> str:
    """What a record of its kind has besides, in words."""
    parts = []
    if "store_host" in fields:
        parts.append(f"to {fields['store_host']}")
    if fields.get("kind"):
        parts.append(fields["kind"].name.lower())
    if "state" in fields:
        parts.append(fields["state"] + (" after a check" if fields["is_from_check"] else ""))
    if fields.get("delivery_attempt"):
        parts.append(f"attempt {fields['delivery_attempt'] + 1}")
    if fields.get("code"):
        parts.append(fields["code"].name.lower().replace("_", " "))
    return ", ".join(parts)
