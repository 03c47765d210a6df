"""Consumer offsets, how far groups have come: committed ones, pull offsets for statistics, and pending resets."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, ItemsView, Iterable
from typing import Final, Protocol

from pyromq.clock import Clock
from pyromq.errors import StoreReadOnlyError
from pyromq.store.tables.offsets import OffsetTable
from pyromq.wire.json import bodies

logger = logging.getLogger(__name__)

_COMMITS_PER_VERSION = 500
OFFSETS_MAX: Final = 1_000_000  # of all groups and queues together
_COUNT_AGAIN: Final = 1_000  # new offsets between two counts
BACKWARD_LINES_MAX: Final = 20  # log lines about commits that go back, in each interval
BACKWARD_INTERVAL_MS: Final = 10_000


class Committer(Protocol):
    """The connection of a client that commits."""

    @property
    def remote_text(self) -> str: ...


class Progress:
    """Owns the offset table. Commits go to memory; the table keeper makes them durable, some seconds later at most."""

    def __init__(self, table: OffsetTable, clock: Clock, *, offsets_max: int = OFFSETS_MAX) -> None:
        self._table = table
        self._clock = clock
        self.offsets_max = offsets_max
        self._room = 0  # for new offsets before they are counted again
        self._is_full = False  # the last new offset was refused
        self._commits = 0  # since the start; the version of the table moves with them
        self._pulled: dict[tuple[str, str, int], int] = {}  # by topic, group and queue: where the next pull begins
        self._resets: dict[tuple[str, str, int], int] = {}  # likewise: what the next pull is answered
        self._backward_lines = 0  # since ``_backward_since_ms``
        self._backward_since_ms = clock.monotonic_ms()

    @property
    def table(self) -> OffsetTable:
        return self._table

    def committed(self, group: str, topic: str, queue_id: int) -> int | None:
        """The next offset the group wants; None when it never committed one (negative values count as none)."""
        offset = self._table.get(topic, group, queue_id)
        return offset if offset is not None and offset >= 0 else None

    def commit(self, group: str, topic: str, queue_id: int, offset: int, client: Committer | None = None) -> None:
        """Stores an offset. Clients may go back, which is logged; a pending reset wins over what they still commit.

        ``client`` is None for what the broker commits itself.
        """
        if offset < 0 or (topic, group, queue_id) in self._resets:
            return
        if client is not None and (before := self._table.get(topic, group, queue_id)) is not None and offset < before:
            self._log_backward(client, f"group={group} topic={topic} queue={queue_id} from={before} to={offset}")
        self._table.put(topic, group, queue_id, offset)
        self._commits += 1
        if self._commits % _COMMITS_PER_VERSION == 0:
            self._table.bump(self._clock.now_ms())

    def _log_backward(self, client: Committer, facts: str) -> None:
        """Messages come again after such a commit; the lines are bounded, as any client may commit what it likes."""
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._backward_since_ms >= BACKWARD_INTERVAL_MS:
            self._backward_lines, self._backward_since_ms = 0, now_ms
        self._backward_lines += 1
        if self._backward_lines <= BACKWARD_LINES_MAX:
            logger.info("commit goes back, messages come again: %s client=%s", facts, client.remote_text)

    def has_room(self, group: str, topic: str, queue_id: int) -> bool:
        """Whether an offset may be committed: one that moves may always, a new one until there are too many."""
        if self._table.get(topic, group, queue_id) is not None:
            return True
        if self._room <= 0:
            self._room = min(_COUNT_AGAIN, self.offsets_max - self._table.offsets_count)
        self._room -= 1
        is_full = self._room < 0
        if is_full and not self._is_full:  # once, not for every pull that comes
            logger.warning(
                "offset not committed, all groups together have as many as are kept: offsets_max=%d group=%s topic=%s "
                "(delete groups that nobody uses with their offsets)",
                *(self.offsets_max, group, topic),
            )
        self._is_full = is_full
        return not is_full

    def pulled(self, group: str, topic: str, queue_id: int) -> int:
        """Where the group's next pull begins, as the last one was answered; never before what it has committed."""
        return max(self._pulled.get((topic, group, queue_id), 0), self.committed(group, topic, queue_id) or 0)

    def note_pull(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        self._pulled[topic, group, queue_id] = offset

    def note_pulled(self, key: tuple[str, str, int], offset: int) -> None:
        """``note_pull`` by topic, group and queue."""
        self._pulled[key] = offset

    @property
    def has_resets(self) -> bool:
        """Whether any pull is to be informed where to go on."""
        return bool(self._resets)

    def has_reset(self, keys: Iterable[tuple[str, str, int]]) -> bool:
        """Whether one of these pulls, by topic, group and queue, is to be informed where to go on."""
        return any(key in self._resets for key in keys)

    def reset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """The next pull is asked to go on there."""
        self._resets[topic, group, queue_id] = offset
        self._table.put(topic, group, queue_id, offset)

    def take_reset(self, group: str, topic: str, queue_id: int) -> int | None:
        return self._resets.pop((topic, group, queue_id), None) if self._resets else None

    def groups_of(self, topic: str) -> list[str]:
        return sorted({group for (known, group), _ in self._table.items() if known == topic})

    def topics_of(self, group: str) -> list[str]:
        return sorted({topic for (topic, known), _ in self._table.items() if known == group})

    def everything(self) -> bodies.AllOffsets:
        """What is known of all groups: what the file has, and what is derived from it or lives in memory only."""
        offsets: dict[str, dict[int, int]] = {}
        topics: dict[str, list[str]] = {}
        pulled: dict[str, dict[int, int]] = {}
        for (topic, group), queues in self._table.items():
            offsets[f"{topic}@{group}"] = dict(queues)
            topics.setdefault(group, []).append(topic)
        for (topic, group, queue_id), offset in self._pulled.items():
            pulled.setdefault(f"{topic}@{group}", {})[queue_id] = offset
        return bodies.AllOffsets(
            data_version=self._table.version, offset_table=offsets, group_topic_map=topics, pull_offset_table=pulled
        )

    def items(self) -> ItemsView[tuple[str, str], dict[int, int]]:
        return self._table.items()

    def queues_of(self, topic: str, group: str) -> dict[int, int] | None:
        """Committed offsets by queue, to be looked at; None when there are none."""
        return self._table.queues_of(topic, group)

    def forget_topic(self, topic: str) -> None:
        for group in self.groups_of(topic):
            self._forget(topic, group)

    def bring_back(self, end_of: Callable[[str, int], int]) -> int:
        """After a crash that cost the ends of queues: groups that were further must not skip what comes next.

        Returns the number of offsets that were set back.
        """
        ahead = [
            (topic, group, queue_id, end)
            for (topic, group), queues in self._table.items()
            for queue_id, offset in queues.items()
            if offset > (end := end_of(topic, queue_id))
        ]
        for topic, group, queue_id, end in ahead:
            self._table.put(topic, group, queue_id, end)
        return len(ahead)

    def begin_anew(self, topic: str, readers: Collection[str]) -> None:
        """The topic was deleted; if it comes back, groups that still read it begin at 0, not where they were before."""
        read = [key for key in self._pulled if key[0] == topic and key[1] in readers]
        self.forget_topic(topic)
        self._resets.update(dict.fromkeys(read, 0))

    def save(self) -> None:
        """Now rather than soon: a crash would bring back what was forgotten. Raises StoreReadOnlyError."""
        try:
            self._table.save()
        except OSError as error:
            raise StoreReadOnlyError(f"{self._table.file_name} could not be saved, try again: {error}") from error

    def forget_group(self, group: str) -> None:
        for topic in self.topics_of(group):
            self._forget(topic, group)

    def _forget(self, topic: str, group: str) -> None:
        """With what was still to happen: a topic or group made anew has nothing to do with it."""
        self._table.remove(topic, group)
        for known in (self._pulled, self._resets):
            for key in [key for key in known if key[:2] == (topic, group)]:
                del known[key]

    def clone(self, source: str, target: str, topic: str | None) -> None:
        """Let a group stand where another one stands."""
        for (name, group), queues in list(self._table.items()):
            if group == source and (topic is None or name == topic):
                for queue_id, offset in list(queues.items()):
                    self._table.put(name, target, queue_id, offset)


Commits = dict[tuple[str, str, int], int]
"""Offsets by topic, group and queue."""


class ReplicaProgress(Progress):
    """Offsets on a replica, which remembers what clients committed here, because the master has not heard of it."""

    def __init__(self, table: OffsetTable, clock: Clock, *, offsets_max: int = OFFSETS_MAX) -> None:
        super().__init__(table, clock, offsets_max=offsets_max)
        self._here: Commits = {}

    def commit(self, group: str, topic: str, queue_id: int, offset: int, client: Committer | None = None) -> None:
        super().commit(group, topic, queue_id, offset, client)
        if offset >= 0:
            self._here[topic, group, queue_id] = offset

    @property
    def has_commits(self) -> bool:
        return bool(self._here)

    def take_commits(self) -> Commits:
        """What was committed since the last call."""
        here, self._here = self._here, {}
        return here

    def put_back(self, commits: Commits) -> None:
        """They did not reach the master; newer ones count more."""
        self._here = {**commits, **self._here}

    def forget_topic(self, topic: str) -> None:
        super().forget_topic(topic)
        self._here = {key: offset for key, offset in self._here.items() if key[0] != topic}
