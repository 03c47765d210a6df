"""Notices to the members of a group that its members changed (40 NOTIFY_CONSUMER_IDS_CHANGED).

Small groups are notified at once. When thousands of members reconnect, each of them changes the group, and notifying
all of them every time would be a matter of n²: members of a large group get all changes of a second together, a part of
them with each tick of the broker.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

from pyromq.broker.state.groups import Groups
from pyromq.broker.state.members import Members
from pyromq.clock import Clock
from pyromq.net.connection import Connection
from pyromq.wire.codes import RequestCode
from pyromq.wire.headers.shared import ConsumerGroupHeader
from pyromq.wire.json.heartbeat import MessageModel

AT_ONCE_MAX: Final = 64  # members of a group that is notified without delay
INTERVAL_MS: Final = 1_000  # between two rounds of notices to a larger one
PER_TICK: Final = 500


class MemberNotices:
    """Owner of what is still to be reported; ``tick`` every tenth of a second."""

    def __init__(self, members: Members[Connection], groups: Groups, clock: Clock) -> None:
        self._members = members
        self._groups = groups
        self._clock = clock
        self._changed: dict[str, None] = {}  # large groups that wait for their round
        self._reported_ms: dict[str, int] = {}  # when their last round began
        self._round: deque[tuple[Connection, ConsumerGroupHeader]] = deque()

    def tell(self, groups: Iterable[str]) -> None:
        """The members of these groups shall share out their queues anew."""
        for name in groups:
            connections = self._listening(name)
            if len(connections) > AT_ONCE_MAX:
                self._changed[name] = None
                continue
            header = ConsumerGroupHeader(consumer_group=name)
            for connection in connections:
                _notify(connection, header)

    @property
    def is_under_way(self) -> bool:
        """Whether members of large groups are still to be notified."""
        return bool(self._round or self._changed)

    def tick(self) -> None:
        if not self._round and self._changed:
            self._begin_round()
        for _ in range(min(PER_TICK, len(self._round))):
            _notify(*self._round.popleft())

    def _begin_round(self) -> None:
        now = self._clock.monotonic_ms()
        self._reported_ms = {name: at_ms for name, at_ms in self._reported_ms.items() if now - at_ms < INTERVAL_MS}
        for name in [name for name in self._changed if name not in self._reported_ms]:
            del self._changed[name]
            self._reported_ms[name] = now
            header = ConsumerGroupHeader(consumer_group=name)
            self._round.extend((connection, header) for connection in self._listening(name))

    def _listening(self, name: str) -> list[Connection]:
        group, config = self._members.consumer_group(name), self._groups.table.get(name)
        if group is None or group.model is MessageModel.BROADCASTING:
            return []
        if config is not None and not config.notify_consumer_ids_changed_enable:
            return []
        return list(group.members)


def _notify(connection: Connection, header: ConsumerGroupHeader) -> None:
    if connection.is_open:
        connection.request_oneway(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, header)
