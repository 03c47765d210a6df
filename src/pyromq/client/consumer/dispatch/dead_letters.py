"""Dead letters at once: what a listener cannot be given, or calls hopeless, is said aloud and counted."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from pyromq.client.consumer.base.owned_queue import OwnedQueue
from pyromq.client.consumer.rules.outcome import Letters
from pyromq.client.core.received_message import ReceivedMessage
from pyromq.errors import quoted

logger = logging.getLogger(__name__)

_REASON_CHARACTERS_MAX = 300


def report_dead_letters(
    group: str, owned: OwnedQueue, batch: Sequence[ReceivedMessage], letters: Letters, seconds: float
) -> None:
    """Counts them and logs a warning for each; what a body holds stays out of it, but for names and types."""
    owned.counts.consumed(0, len(letters.reasons), seconds)
    owned.counts.dead += len(letters.reasons)
    for place, reason in letters.reasons.items():
        message = batch[place]
        facts = (group, owned.queue, message.offset, message.message_id, letters.stage)
        shown = quoted(reason, _REASON_CHARACTERS_MAX)
        logger.warning("dead letter at once: group=%s queue=%s offset=%d id=%s stage=%s reason=%s", *facts, shown)
