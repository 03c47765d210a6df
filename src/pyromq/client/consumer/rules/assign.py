"""Assignment strategies: functions that every member of a group evaluates alike, so that no queue has two owners.

Each takes all queues of a topic, the ids of all members and the own id, in any order, and gives the own share, sorted.
Results are those of RocketMQ's clients, because a group may have members in several languages. A member that is not on
the list of members gets nothing.

    function                  RocketMQ's name          shares
    assign_evenly             AVG                      consecutive blocks, the first ones larger by one
    assign_in_circle          AVG_BY_CIRCLE            dealt out one by one
    assign_by_hash            CONSISTENT_HASH          few queues move when a member comes or goes
    assigning_fixed           CONFIG                   what the user said; it is not checked that it adds up
    assigning_by_room         MACHINE_ROOM             only queues of brokers called room@name, in the given rooms
    assigning_nearby          MACHINE_ROOM_NEARBY-…    own room first; rooms without members are shared by all
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping
from hashlib import md5
from typing import Final, TypeVar

from pyromq.errors import ConfigError
from pyromq.model.queue import QueueId
from pyromq.model.sharing import share_evenly, share_in_circle, share_of, sorted_members

Assign = Callable[[Iterable[QueueId], Iterable[str], str], list[QueueId]]
"""All queues of a topic, all members, the own id → the own queues, sorted."""

T = TypeVar("T")

VIRTUAL_NODES: Final = 10


def assign_evenly(queues: Iterable[QueueId], members: Iterable[str], me: str) -> list[QueueId]:
    """Consecutive blocks; with more members than queues the last members get none."""
    return share_of(me, members, queues, share_evenly)


def assign_in_circle(queues: Iterable[QueueId], members: Iterable[str], me: str) -> list[QueueId]:
    """Assign every n-th queue to the n-th member."""
    return share_of(me, members, queues, share_in_circle)


def assign_by_hash(
    queues: Iterable[QueueId], members: Iterable[str], me: str, *, virtual_nodes: int = VIRTUAL_NODES
) -> list[QueueId]:
    """Members stand on a ring in several places each; a queue belongs to the first place at or behind its own hash."""
    if virtual_nodes < 1:
        raise ConfigError(f"a ring needs at least one place per member, not {virtual_nodes}")
    ids = sorted_members(members)
    if me not in ids:
        return []
    ring = {_ring_hash(f"{member}-{node}"): member for member in ids for node in range(virtual_nodes)}
    places = sorted(ring)

    def owner(queue: QueueId) -> str:
        text = f"MessageQueue [topic={queue.topic}, brokerName={queue.broker}, queueId={queue.number}]"
        return ring[places[bisect_left(places, _ring_hash(text)) % len(places)]]

    return [queue for queue in _sorted_queues(queues) if owner(queue) == me]


def assigning_fixed(chosen: Iterable[QueueId]) -> Assign:
    """Always these queues, whatever the route and the group look like."""
    share = _sorted_queues(chosen)
    return lambda _queues, _members, _me: list(share)


def assigning_by_room(rooms: Collection[str]) -> Assign:
    """The queues of the given rooms: equal blocks, and what remains is dealt out behind them one by one."""
    wanted = frozenset(rooms)

    def assign(queues: Iterable[QueueId], members: Iterable[str], me: str) -> list[QueueId]:
        shared, ids = [queue for queue in _sorted_queues(queues) if _room_of(queue) in wanted], sorted_members(members)
        if me not in ids:
            return []
        size, rest = divmod(len(shared), len(ids))
        index = ids.index(me)
        extra = [shared[size * len(ids) + index]] if index < rest else []
        return shared[size * index : size * index + size] + extra

    return assign


def assigning_nearby(
    room_of_queue: Callable[[QueueId], str], room_of_member: Callable[[str], str], inner: Assign = assign_evenly
) -> Assign:
    """Members share their own room's queues; queues of rooms without members are shared by all.

    The function raises ConfigError when a room is not known: the members could not agree.
    """

    def assign(queues: Iterable[QueueId], members: Iterable[str], me: str) -> list[QueueId]:
        ids = sorted_members(members)
        if me not in ids:
            return []
        queues_in, members_in = _by_room(_sorted_queues(queues), room_of_queue), _by_room(ids, room_of_member)
        home = room_of_member(me)
        mine = inner(queues_in.get(home, []), members_in[home], me)
        for room in queues_in.keys() - members_in.keys():
            mine += inner(queues_in[room], ids, me)
        return sorted(mine)

    return assign


STRATEGIES: Final[Mapping[str, Assign]] = {
    "AVG": assign_evenly,
    "AVG_BY_CIRCLE": assign_in_circle,
    "CONSISTENT_HASH": assign_by_hash,
}
"""Those that need no further settings, under the names that RocketMQ's tools and brokers use."""


def _sorted_queues(queues: Iterable[QueueId]) -> list[QueueId]:
    return sorted(set(queues))


def _ring_hash(text: str) -> int:
    digest = md5(text.encode("utf-8", "replace"), usedforsecurity=False).digest()
    return int.from_bytes(digest[:4], "big")


def _room_of(queue: QueueId) -> str | None:
    """The part before the only ``@`` of a broker's name; Java's split overlooks those at the end."""
    parts = queue.broker.rstrip("@").split("@")
    return parts[0] if len(parts) == 2 else None


def _by_room(items: list[T], room_of: Callable[[T], str]) -> dict[str, list[T]]:
    rooms: dict[str, list[T]] = {}
    for item in items:
        if not (room := room_of(item)):
            raise ConfigError(f"the machine room of {item} is not known")
        rooms.setdefault(room, []).append(item)
    return rooms
