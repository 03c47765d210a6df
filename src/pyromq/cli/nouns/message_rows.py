"""Messages as rows: what ``message`` and ``tail`` show of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyromq.cli.output.tables import Form

if TYPE_CHECKING:
    from pyromq.aio import ReceivedMessage


def message_row(message: ReceivedMessage, form: Form) -> dict[str, Any]:
    """Return a row for ``write_rows``; tables and CSV have any body as text, tables the place in one word."""
    import msgspec

    from pyromq.operate.reading.message_rows import row_of

    row: dict[str, Any] = msgspec.to_builtins(row_of(message))
    if form in (Form.TABLE, Form.CSV):
        row |= {"where": f"{message.broker}:{message.queue_id}@{message.offset}", "body": body_text(message)}
    return row


def body_text(message: ReceivedMessage) -> str:
    """Return the body as text; bytes that are not UTF-8 are escaped."""
    from pyromq.operate.reading.message_rows import body_of

    return body_of(message)[0].decode("utf-8", "backslashreplace")
