"""Skips: messages that a listener was not called for, because they were consumed before. Who wants to know listens."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from pyromq.client.core.received_message import ReceivedMessage
from pyromq.errors import quoted

logger = logging.getLogger(__name__)

_noticed: ContextVar[list[ReceivedMessage] | None] = ContextVar("pyromq_skipped", default=None)


@contextmanager
def noticing_skips() -> Iterator[list[ReceivedMessage]]:
    """What a listener that is called inside the block skips; the list grows meanwhile."""
    found: list[ReceivedMessage] = []
    token = _noticed.set(found)
    try:
        yield found
    finally:
        _noticed.reset(token)


def note_skips(messages: Sequence[ReceivedMessage], scope: str) -> None:
    """Logs them at DEBUG, and tells who listens."""
    for message in messages:
        facts = (scope, message.topic, quoted(" ".join(message.keys)), message.message_id)
        logger.debug("skipped, consumed before: scope=%s topic=%s keys=%s id=%s", *facts)
    if (noticed := _noticed.get()) is not None:
        noticed.extend(messages)
