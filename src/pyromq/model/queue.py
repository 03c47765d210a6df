"""Addresses of messages: a byte of the log, an ordinal of a queue."""

from __future__ import annotations

from typing import NewType

import msgspec

Position = NewType("Position", int)
"""A byte address in the commit log."""

Offset = NewType("Offset", int)
"""The ordinal of a message in its queue."""


class QueueId(msgspec.Struct, frozen=True, order=True, gc=False, rename={"broker": "brokerName", "number": "queueId"}):
    """One queue of one topic on one broker; orders by topic, broker, number, as every client must."""

    topic: str
    broker: str
    number: int
