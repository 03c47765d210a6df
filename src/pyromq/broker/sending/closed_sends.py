"""Sends that are refused until a moment (``sends_from_ms``, RocketMQ's startAcceptSendRequestTimeStamp).

A broker that hands over to another takes no message from that instant on, whatever routes its producers know. What
consumers send back is refused by ``permission``; what was delayed and what ends a transaction is stored as before.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from pyromq.broker.dispatching.layers import Layer, refusing
from pyromq.wire.codes import CLOSED_TO_SENDS, ResponseCode
from pyromq.wire.codes import RequestCode as Code

SENDS: Final = (
    Code.SEND_MESSAGE,
    Code.SEND_MESSAGE_V2,
    Code.SEND_BATCH_MESSAGE,
    Code.SEND_REPLY_MESSAGE,
    Code.SEND_REPLY_MESSAGE_V2,
)
_FAR_MS: Final = 253_402_300_799_000  # the last second of the year 9999; calendars end there


def closed_layer(until_ms: int) -> Layer:
    """What a broker refuses that takes no message until then."""
    at = datetime.fromtimestamp(min(until_ms, _FAR_MS) / 1_000, UTC)
    remark = f"{CLOSED_TO_SENDS}, until {at:%Y-%m-%d %H:%M:%S} UTC (startAcceptSendRequestTimeStamp)"
    return refusing(SENDS, ResponseCode.SYSTEM_ERROR, remark)
