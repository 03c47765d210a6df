"""Failure recorder: notes on a message why it failed, before it goes back to a broker or is tried here again.

What is noted travels with the message (``model.failure``). Telling is never worth a message: whatever goes wrong here
is logged, and the message goes its way without the story.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from pyromq.client.consumer.rules.failure_capture import (
    RETURNED_RETRY,
    TIMED_OUT,
    Mask,
    class_name,
    masked,
    raised_of,
)
from pyromq.client.consumer.rules.outcome import STAGE_DECODE, Letters
from pyromq.client.core.received_message import ReceivedMessage
from pyromq.clock import Clock
from pyromq.model.failure import FACT_BYTES_MAX, Failure, failure_from_text, printable, story_after

logger = logging.getLogger(__name__)

VERSION_VARIABLE: Final = "PYROMQ_CODE_VERSION"


def code_version(named: str) -> str:
    """The version of the application's code: as it was named, or as the environment has it."""
    return named or os.environ.get(VERSION_VARIABLE, "")


class FailureRecorder:
    """Records why messages of one consumer failed. ``is_on`` False: messages go back as RocketMQ's clients send
    them.
    """

    def __init__(
        self,
        clock: Clock,
        masks: Sequence[Mask] = (),
        version: str = "",
        *,
        is_on: bool = True,
        traceback_bytes: int = 0,
    ) -> None:
        self._clock = clock
        self._masks = tuple(masks)
        self._version = printable(code_version(version), FACT_BYTES_MAX)
        self._host = printable(socket.gethostname(), FACT_BYTES_MAX)
        self._is_on = is_on
        self._traceback_bytes = traceback_bytes

    def raised(self, messages: Sequence[ReceivedMessage], error: BaseException) -> None:
        """A listener raised this for all of them."""

        def failure() -> Failure:
            raised = raised_of(error, with_traceback=self._traceback_bytes > 0)
            return raised.failure(self._masks, self._traceback_bytes)

        self._note(messages, failure)

    def gave_up(self, batch: Sequence[ReceivedMessage], error: BaseException, letters: Letters) -> None:
        """Record why messages are dead letters at once: each has its reason where bodies cannot be decoded."""
        if letters.stage == STAGE_DECODE:
            self.reasons(batch, error, letters.reasons)
        else:
            self.raised(batch, error)

    def reasons(self, batch: Sequence[ReceivedMessage], error: BaseException, reasons: Mapping[int, str]) -> None:
        """A listener could not be given these, each for a reason of its own, by place."""
        if self._is_on:
            for place, reason in reasons.items():
                self.said(batch[place : place + 1], class_name(type(error)), reason)

    def returned_retry(self, messages: Sequence[ReceivedMessage]) -> None:
        self.said(messages, RETURNED_RETRY, "")

    def timed_out(self, messages: Sequence[ReceivedMessage]) -> None:
        self.said(messages, TIMED_OUT, "it took longer than consume_timeout_ms allows")

    def said(self, messages: Sequence[ReceivedMessage], error_class: str, text: str) -> None:
        """Record a failure without an exception."""
        self._note(messages, lambda: failure_from_text(error_class, self.mask(text)))

    def mask(self, text: str) -> str:
        """What hooks leave of a text."""
        return masked(text, self._masks) if text and self._masks else text

    def _note(self, messages: Sequence[ReceivedMessage], make: Callable[[], Failure]) -> None:
        if not self._is_on:
            return
        try:
            failure = make()
            facts = {"version": self._version, "host": self._host, "time_ms": self._clock.now_ms()}
            for message in messages:
                record = msgspec.structs.replace(failure, attempt=message.delivery_attempt + 1, **facts)
                message.note_failure(story_after(message.failure_story, record))
        except Exception:  # errors are the application's: none may keep its message from going back
            first = messages[0].message_id if messages else ""
            logger.exception("failure not told, its message goes back without: id=%s count=%d", first, len(messages))
