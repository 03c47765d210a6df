"""Damage of single messages: a bit of a record flips on the disk of one member, until the member has mended it."""

from __future__ import annotations

from random import Random

from pyromq.model.names import POP_JOURNAL_TOPIC, RETRY_PREFIX, SCHEDULE_TOPIC, TIMER_TOPIC
from pyromq.store.derived.queue_entry import FILLER_SIZE
from tests.sim.cluster import FOLDER, STORE, Member

_LATE = 12  # of the last messages of a queue one is chosen


class Damage:
    """One bit; ``is_over`` when the member has the right one again."""

    def __init__(self, member: Member, position: int, size: int, rng: Random) -> None:
        base = position - position % STORE.segment_bytes
        self._member = member
        self._path = FOLDER / "commitlog" / f"{base:020d}"
        self._at = position - base + rng.randrange(size)
        self._whole = self._byte()
        member.is_damaged = True
        member.disk.flip_bit(self._path, 8 * self._at + rng.randrange(8))

    def _byte(self) -> bytes:
        return bytes(self._member.disk.durable_bytes(self._path)[self._at : self._at + 1])

    def is_over(self) -> bool:
        if self._byte() != self._whole:
            return False
        self._member.is_damaged = False
        return True


def late_message(master: Member, rng: Random) -> tuple[int, int] | None:
    """Position and size of a message that is in flight, that waits for its time, or that was stored lately."""
    assert master.serving is not None
    store, popped = master.serving.store, master.serving.parts.popping.pops.table.queues.values()
    queues = {key: queue for key, queue in store.queues.items() if queue.end > queue.first}
    in_flight = [(*each.name[1:], offset) for each in popped for offset in each.rows if each.name[1:] in queues]
    if in_flight and rng.random() < 0.5:
        topic, queue_id, offset = rng.choice(sorted(in_flight))
    else:
        waiting = [key for key in queues if key[0] in (SCHEDULE_TOPIC, TIMER_TOPIC) or key[0].startswith(RETRY_PREFIX)]
        others = [key for key in queues if key not in waiting and key[0] != POP_JOURNAL_TOPIC]
        keys = waiting if waiting and (not others or rng.random() < 0.6) else others
        if not keys:
            return None
        topic, queue_id = rng.choice(sorted(keys))
        queue = queues[topic, queue_id]
        offset = rng.randrange(max(queue.first, queue.end - _LATE), queue.end)
    position, size, _ = queues[topic, queue_id].entry(offset)
    return (position, size) if size != FILLER_SIZE else None
