"""Direct consumption (309 CONSUME_MESSAGE_DIRECTLY): a connected member hands one stored message to its listener now.

The broker passes the request on to the member; offsets and retries stay as they are. Java's, Go's and PyroMQ's push
consumers answer it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from pyromq.errors import RemoteProtocolError
from pyromq.wire.json import java_json


class DirectOutcome(StrEnum):
    """What the listener made of the message."""

    SUCCESS = "success"
    LATER = "later"
    ROLLBACK = "rollback"
    COMMIT = "commit"
    EXCEPTION = "exception"
    NULL = "null"  # Java's: it returned null


_OUTCOMES: Final = {
    "CR_SUCCESS": DirectOutcome.SUCCESS,
    "CR_LATER": DirectOutcome.LATER,
    "CR_ROLLBACK": DirectOutcome.ROLLBACK,
    "CR_COMMIT": DirectOutcome.COMMIT,
    "CR_THROW_EXCEPTION": DirectOutcome.EXCEPTION,
    "CR_RETURN_NULL": DirectOutcome.NULL,
}


class DirectConsumption(msgspec.Struct, frozen=True, kw_only=True):
    """One message, one member, and what became of it. ``remark`` has what the listener raised."""

    message_id: str
    group: str
    client_id: str
    outcome: DirectOutcome
    remark: str = ""
    spent_ms: int = 0
    is_orderly: bool = False

    @property
    def is_consumed(self) -> bool:
        return self.outcome in (DirectOutcome.SUCCESS, DirectOutcome.COMMIT)


class _Reported(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    consume_result: str | int
    remark: str | None = None
    spent_time_mills: int = 0
    order: bool = False


def read_direct_consumption(body: bytes, message_id: str, group: str, client_id: str) -> DirectConsumption:
    """From what the member told: the outcome by its name, or by its number as Go has it. Raises RemoteProtocolError."""
    fields = java_json.decode(body, _Reported)
    names = list(_OUTCOMES)
    result = fields.consume_result
    word = names[result] if isinstance(result, int) and 0 <= result < len(names) else str(result)
    if word not in _OUTCOMES:
        raise RemoteProtocolError(f"client {client_id} told a result that is not known: {result!r}")
    return DirectConsumption(
        message_id=message_id,
        group=group,
        client_id=client_id,
        outcome=_OUTCOMES[word],
        remark=fields.remark or "",
        spent_ms=fields.spent_time_mills,
        is_orderly=fields.order,
    )
