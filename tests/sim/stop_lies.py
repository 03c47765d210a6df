"""Planted mistakes of stops in order, and of retention."""

from __future__ import annotations

from contextlib import ExitStack
from contextvars import ContextVar
from typing import Any, Final

from pyromq.broker.state.unread_watch import UnreadWatch
from pyromq.client.consumer.push_consumer import PushConsumer
from pyromq.client.consumer.rules.queue_buffer import QueueBuffer
from pyromq.model.queue import Offset
from tests.sim.lie import Lie, replaced, wrapped
from tests.sim.plan import STOPS

_CLOSES: ContextVar[bool] = ContextVar("closes", default=False)


def _noted(plain: Any) -> Any:
    async def close(self: PushConsumer) -> None:
        _CLOSES.set(True)
        await plain(self)

    return close


def _all_that_came(plain: Any) -> Any:
    def commit_offset(self: QueueBuffer) -> Offset | None:
        return Offset(self._last_offset + 1) if _CLOSES.get() and self._last_offset >= 0 else plain(self)

    return commit_offset


def _commits_at_the_end() -> Any:
    stack = ExitStack()
    stack.enter_context(wrapped(PushConsumer, "close", _noted)())
    stack.enter_context(wrapped(QueueBuffer, "commit_offset", _all_that_came)())
    return stack


STOP_LIES: Final = (
    Lie(
        "stops commit everything",
        "a consumer that is stopped commits what it has got, consumed or not",
        _commits_at_the_end,
        200_003,
        kinds=STOPS[2:],
        clients=("push",),
    ),
    Lie(
        "retention knows no groups",
        "files are deleted that some group has not read",
        replaced(UnreadWatch, "readers", lambda self: lambda topic, queue_id: None),
        300_026,
        needs_retention=True,
    ),
)
