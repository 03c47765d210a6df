"""Rows of messages that were sent again, for ``dlq redrive``, ``message resend`` and Spark's redrive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyromq.cli.output.tables import Column

if TYPE_CHECKING:
    from pyromq.operate.resend.outcomes import ItemOutcome

_STYLES: Final = {"sent": "green", "failed": "bold red", "unknown": "bold red", "held back": "yellow"}
RESENT_COLUMNS: Final = (
    Column("message_id", "message"),
    Column("keys", "keys", optional=True),
    Column("status", "status", styles=_STYLES, whole=True),
    Column("to_topic", "to"),
    Column("new_message_id", "new id", optional=True),
    Column("why", "why", optional=True),
)


def resent_row(each: ItemOutcome) -> dict[str, Any]:
    """Return the fields of an outcome, and ``why`` in words."""
    import msgspec

    return {**msgspec.structs.asdict(each), "status": each.status.value, "why": each.why}
