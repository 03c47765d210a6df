"""Planted mistakes of stops in order, and of retention."""

from __future__ import annotations

from typing import Any, Final

from pyromq.broker.state.unread_watch import UnreadWatch
from pyromq.client.consumer.base.owned_queue import OwnedQueue
from pyromq.client.consumer.push_consumer import PushConsumer
from pyromq.model.queue import Offset
from tests.sim.lie import Lie, replaced, wrapped
from tests.sim.plan import STOPS


def _all_that_came(plain: Any) -> Any:
    def note(self: Any, owned: OwnedQueue) -> Offset | None:
        last = owned.settle()._last_offset
        if self._is_open or last < 0:
            return plain(self, owned)  # type: ignore[no-any-return]
        self._keeper.table.update(owned.queue, Offset(last + 1))
        return super(PushConsumer, self)._note(owned)

    return note


STOP_LIES: Final = (
    Lie(
        "stops commit everything",
        "a consumer that is stopped commits what it has got, consumed or not",
        wrapped(PushConsumer, "_note", _all_that_came),
        200_292,
        kinds=STOPS[2:],
        clients=("push",),
    ),
    Lie(
        "retention knows no groups",
        "files are deleted that some group has not read",
        replaced(UnreadWatch, "readers", lambda self: lambda topic, queue_id: None),
        300_071,
        needs_retention=True,
    ),
)
