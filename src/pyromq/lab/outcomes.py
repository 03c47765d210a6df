"""Outcomes: what a handler made of one message, beside what groups have recorded about it."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from enum import StrEnum
from typing import Any

import msgspec

from pyromq.client.consumer.base.hook_runner import consume_code
from pyromq.client.core.received_message import ReceivedMessage
from pyromq.operate.explaining.group_story import GroupStory
from pyromq.wire.trace import ConsumeCode

_NEVER_MS = 1 << 62  # a replay has no time limit


class OutcomeKind(StrEnum):
    OK = "ok"
    LATER = "later"  # the handler asked for the message again
    FAILED = "failed"  # the handler raised


class ReplayOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """``recorded`` is what the groups of the topic, or the one that was asked about, did with it really."""

    message: ReceivedMessage
    kind: OutcomeKind
    result: Any = None
    error: Exception | None = None
    elapsed_ms: float = 0.0
    recorded: tuple[GroupStory, ...] = ()

    @property
    def is_ok(self) -> bool:
        return self.kind is OutcomeKind.OK

    @property
    def text(self) -> str:
        """Outcome in a few words."""
        if self.error is not None:
            return f"{type(self.error).__name__}: {self.error}"
        return "" if self.result is None else repr(self.result)

    @property
    def traceback(self) -> str:
        """Traceback of what the handler raised; empty if it did not."""
        return "" if self.error is None else "".join(traceback.format_exception(self.error))

    @property
    def recorded_text(self) -> str:
        return "; ".join(f"{story.group}: {story.state}" for story in self.recorded)


def outcome_of(
    message: ReceivedMessage,
    result: Any,
    error: Exception | None,
    *,
    elapsed_s: float,
    recorded: tuple[GroupStory, ...],
) -> ReplayOutcome:
    code = consume_code(result, raised=error is not None, spent_ms=0, timeout_ms=_NEVER_MS)
    kind = OutcomeKind.FAILED if error is not None else OutcomeKind.OK
    if error is None and code is not ConsumeCode.SUCCESS and _is_verdict(result):
        kind = OutcomeKind.LATER
    return ReplayOutcome(
        message=message,
        kind=kind,
        result=result,
        error=error,
        elapsed_ms=elapsed_s * 1000,
        recorded=recorded,
    )


def _is_verdict(result: Any) -> bool:
    """What a listener says to its consumer; everything else that a function returns is its own affair."""
    return type(result).__module__.startswith("pyromq.client.consumer.rules")


def attempt(call: Callable[[], Any]) -> tuple[Any, Exception | None]:
    """What a handler returns, or what it raises; Ctrl-C goes through."""
    try:
        return call(), None
    except Exception as error:  # the handler's own: that is what a replay is for
        return None, _without_our_frames(error)


async def attempt_coroutine(call: Callable[[], Any]) -> tuple[Any, Exception | None]:
    try:
        return await call(), None
    except Exception as error:  # as above
        return None, _without_our_frames(error)


def _without_our_frames(error: Exception) -> Exception:
    """A traceback that begins in the handler."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_globals.get("__name__", "").startswith("pyromq.lab."):
        frames = frames.tb_next
    return error.with_traceback(frames or error.__traceback__)
