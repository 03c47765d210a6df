"""Messages as rows: what ``message`` and ``tail`` show of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyromq.cli.output.tables import Form

if TYPE_CHECKING:
    from pyromq.aio import ReceivedMessage
    from pyromq.operate.reading.typed_views import DecodedBody


def message_row(message: ReceivedMessage, form: Form, decoded: DecodedBody | None = None) -> dict[str, Any]:
    """Return a row for ``write_rows``; tables and CSV have any body as text, tables the place in one word.

    ``decoded`` is what the body says by the schema of its topic.
    """
    import msgspec

    from pyromq.operate.reading.message_rows import row_of

    row: dict[str, Any] = msgspec.to_builtins(row_of(message))
    if form in (Form.TABLE, Form.CSV):
        row |= {"where": f"{message.broker}:{message.queue_id}@{message.offset}", "body": body_text(message, decoded)}
    elif decoded is not None:
        row["schema"] = decoded.schema
        row |= {"schema_problem": decoded.problem} if decoded.problem else {"decoded": decoded.value}
    return row


def body_text(message: ReceivedMessage, decoded: DecodedBody | None = None) -> str:
    """Return the body as text, decoded where a schema says how; bytes that are not UTF-8 are escaped."""
    from pyromq.operate.reading.message_rows import body_of

    if decoded is not None:
        plain = body_of(message)[0].decode("utf-8", "backslashreplace")
        return f"{plain}  ({decoded.schema}: {decoded.problem})" if decoded.problem else decoded.text
    return body_of(message)[0].decode("utf-8", "backslashreplace")
