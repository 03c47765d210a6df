"""Planted mistakes: small lies in the product, each of which the simulator must find.

A lie that is not found is a hole in the simulator. ``python -m tests.sim --lie NAME --seeds 1..1000 --stop`` looks for
the first seed that tells; it stands beside the lie, so that the tests need not look for long.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import msgspec

from pyromq.broker.base.lease import Lease, LeaseState
from pyromq.broker.base.responses import send_response
from pyromq.broker.commit import high_watermark
from pyromq.broker.delays import delays, schedule
from pyromq.broker.replicating.members import ReplicaMembers
from pyromq.broker.sending.send_back import SendBackHandler
from pyromq.broker.state.topics import Topics
from pyromq.broker.transactions import transactions
from pyromq.client.consumer.rules.queue_buffer import QueueBuffer
from pyromq.failover import agent, doubt, rules
from pyromq.failover.broker_control import BrokerBeside
from pyromq.failover.sight import Sight
from pyromq.operate.resend.engine import Resender
from pyromq.operate.resend.outcomes import ItemStatus
from pyromq.outbox.kept import KeptMessages
from pyromq.replication import follower
from pyromq.replication.leader import Leader
from pyromq.results import SendStatus
from pyromq.store.derived.indexer import Indexer
from pyromq.store.log.flushes import FlushJob
from pyromq.testing.faulty_disk import FaultyDisk
from tests.sim.damage_lies import DAMAGE_LIES
from tests.sim.lease_models import EtcdModel, PostgresModel
from tests.sim.lie import Lie, Planting, both, replaced, wrapped
from tests.sim.machine_lies import MACHINE_LIES
from tests.sim.pop_lies import POP_LIES
from tests.sim.promise_lies import PROMISE_LIES
from tests.sim.right_lies import RIGHT_LIES
from tests.sim.stop_lies import STOP_LIES


def _is_master(lease: Lease) -> bool:
    return lease.state.role == "master"


def _without_gap(plain: Any) -> Any:
    def init(self: Any, index: Any, log: Any, health: Any, gap_start: int, waiting_max: int) -> None:
        plain(self, index, log, health, log.end, waiting_max)

    return init


def _longer_grant(plain: Any) -> Any:
    async def grant(self: Any, record: Any, until_s: float, required: Any) -> None:
        await plain(self, record, until_s + 15.0, required)

    return grant


def _all_but_one(plain: Any) -> Any:
    def required_members(*arguments: Any) -> Any:
        return plain(*arguments)[1:]

    return required_members


def _taken_by_anybody(plain: Any) -> Any:
    def take(sight: Any, broker: Any, record: Any) -> Any:
        return plain(sight, broker, msgspec.structs.replace(record, in_sync=(*record.in_sync, sight.me), confirmed=0))

    return take


async def _only_said(self: Resender, message: Any) -> Any:
    return msgspec.structs.replace(message.source, status=ItemStatus.SENT, stored=SendStatus.SEND_OK)


def _flush_that_forgets(job: FlushJob) -> None:
    """It says that everything is on disk."""


def _unsaved(self: Lease, state: LeaseState) -> None:
    self.state = state


def _first_half(plain: Any) -> Any:
    """Of the messages that a send-back brings, every second one is answered and not stored."""

    def send_back(self: Any, connection: Any, request: Any) -> None:
        if request.correlation_id % 2:
            send_response(connection, request, None)
        else:
            plain(self, connection, request)

    return send_back


def _ahead(plain: Any) -> Any:
    def commit_offset(self: Any) -> Any:
        found = plain(self)
        return found if found is None else type(found)(found + 3)

    return commit_offset


def _backwards(plain: Any) -> Any:
    def take(self: Any, count_max: int) -> Any:
        if len(self._waiting) > 1:
            self._waiting.reverse()
        return plain(self, count_max)

    return take


def _soon(plain: Any) -> Any:
    def place(self: Any, topic: str, queue_id: int, text: str, due_ms: int) -> Any:
        return plain(self, topic, queue_id, text, due_ms - 3_000)

    return place


def _commit_always(plain: Any) -> Any:
    return {key: transactions.Ending.COMMIT if ending is not None else None for key, ending in plain.items()}


def _reports_what_it_got(self: Any) -> None:
    position = self._store.end_position
    if self._same and self._follower.acknowledges and position > self._reported:
        self._reported = position
        self._say()


def _cut_nothing(self: LeaseState, epochs: Any) -> None:
    return None


def _cut_too_late(plain: Any) -> Any:
    def cut_position(self: LeaseState, epochs: Any) -> int | None:
        found = plain(self, epochs)
        return found if found is None else max(each.start for each in epochs)

    return cut_position


def _kept_connections(plain: Any) -> Any:
    def part(self: Leader, reason: str) -> None:
        if reason == "the master stops":
            plain(self, reason)

    return part


def _sure(plain: Any) -> Any:
    def note_record(self: Any, *arguments: Any) -> None:
        plain(self, *arguments)
        self.is_sure = True

    return note_record


def _not_compared(plain: Any) -> Any:
    def transaction(self: EtcdModel, body: dict[str, Any]) -> Any:
        return plain(self, {**body, "compare": []})

    return transaction


def _not_versioned(plain: Any) -> Any:
    def execute(self: PostgresModel, statement: str, values: tuple[Any, ...]) -> Any:
        if statement.startswith("UPDATE") and values[1] in self.rows:
            values = (*values[:2], self.rows[values[1]][0])
        return plain(self, statement, values)

    return execute


def _kept_and_forgotten(plain: Any) -> Any:
    def oldest(self: Any, lane: str) -> Any:
        found = plain(self, lane)
        self.forget([each.id for each in found[1:]])
        return found[:1]

    return oldest


def _shown_early(plain: Any) -> Any:
    def most(self: Any, *_: Any) -> int:
        return int(high_watermark.EVERYTHING)

    return most


_TOLD: set[int] = set()


def _twice(plain: Any) -> Any:
    def finish(self: Any, messages: Any) -> Any:
        whole = list(messages)
        if whole and whole[0].offset % 5 == 0 and whole[0].offset not in _TOLD:
            _TOLD.add(whole[0].offset)
            self.put_back(whole)
            return None
        return plain(self, whole)

    return finish


_CUTS: Final = ("isolate", "cut", "cut one way", "bridge", "pause machine", "leases away", "slow")
_CRASHES: Final = ("kill machine", "power", "power of all", "power at operation", "kill broker", *_CUTS)
_POWER: Final = ("power", "power of all", "power at operation")


def _of_sets(name: str, says: str, plant: Planting, seed: int, *kinds: str, store: str = "") -> Lie:
    return Lie(name, says, plant, seed, kinds=kinds, store=store, is_of_sets=True)


LIES: Final = (
    _of_sets(
        "lease never ends",
        "a master acknowledges for as long as it thinks that it is one",
        replaced(Lease, "is_open", property(_is_master)),
        2,
        *_CUTS,
    ),
    _of_sets(
        "grant too long",
        "an agent grants more than its lease",
        wrapped(BrokerBeside, "grant", _longer_grant),
        2,
        *_CUTS,
    ),
    _of_sets(
        "lease expires early",
        "others take it before its holder has lost it",
        replaced(Sight, "is_expired", property(lambda self: self.now_s - self.seen_s > 0.3)),
        2,
    ),
    _of_sets(
        "anybody takes over",
        "also a member that lacks something",
        wrapped(rules, "_take", _taken_by_anybody),
        20,
        *_CRASHES,
    ),
    _of_sets(
        "one is not waited for",
        "a member is named, and the master does not wait for it",
        wrapped(agent, "required_members", _all_but_one),
        1,
        *_CRASHES,
    ),
    _of_sets(
        "nobody is waited for",
        "the master waits for no member",
        replaced(agent, "required_members", lambda *_: ()),
        1,
        *_CRASHES,
    ),
    _of_sets(
        "gate answers unconfirmed",
        "the lease's members count as if they had everything",
        replaced(ReplicaMembers, "required_position", lambda self: 1 << 60 if self._lease.required else None),
        20,
        *_CRASHES,
    ),
    Lie(
        "commit before flush",
        "a flush says that it is done and does nothing",
        replaced(FlushJob, "run", _flush_that_forgets),
        3,
        kinds=_POWER,
    ),
    _of_sets(
        "never cut",
        "an old master keeps what the new one does not have",
        replaced(LeaseState, "cut_position", _cut_nothing),
        1,
        *_CRASHES,
    ),
    _of_sets(
        "lease not on disk",
        "what a broker knows of leases dies with its process",
        replaced(Lease, "save", _unsaved),
        1,
        *_CRASHES,
    ),
    Lie(
        "etcd does not compare",
        "every write of the lease succeeds",
        wrapped(EtcdModel, "_transaction", _not_compared),
        72,
        kinds=_CRASHES,
        store="etcd",
        is_of_sets=True,
    ),
    _of_sets(
        "PostgreSQL does not compare",
        "every write of the lease succeeds",
        wrapped(PostgresModel, "execute", _not_versioned),
        37,
        *_CRASHES,
        store="postgresql",
    ),
    Lie(
        "send-back dropped",
        "a failed message is answered and not stored",
        wrapped(SendBackHandler, "send_back", _first_half),
        142,
        needs_failures=True,
    ),
    Lie(
        "out of order",
        "an orderly listener gets the newest first",
        wrapped(QueueBuffer, "take", _backwards),
        79,
        clients=("orderly",),
    ),
    Lie(
        "timer too early",
        "messages come three seconds before their time",
        wrapped(delays.Delays, "_place_at", _soon),
        3,
        clients=("delayed",),
    ),
    Lie(
        "level too early",
        "a delay level is shorter than it says",
        replaced(schedule.Schedule, "_due_ms", lambda self, level, offset, position, due_ms: due_ms - 1_500),
        3,
        clients=("delayed",),
    ),
    Lie(
        "rollback is commit",
        "every transaction is committed",
        wrapped(transactions, "_ENDINGS", _commit_always),
        8,
        clients=("transactions",),
    ),
    Lie(
        "commit is dropped",
        "a committed message is not written",
        replaced(transactions.TransactionHandler, "_stage_final", lambda self, prepared: transactions._OP_QUEUE),
        110,
        clients=("transactions",),
    ),
    Lie(
        "outbox forgets",
        "kept messages are forgotten before they are sent",
        wrapped(KeptMessages, "oldest", _kept_and_forgotten),
        110,
        kinds=_CRASHES,
        clients=("outbox",),
    ),
    Lie(
        "keys have a gap",
        "keys that a crash took from the index are not put back",
        wrapped(Indexer, "__init__", _without_gap),
        1,
        kinds=_CRASHES,
    ),
    Lie("consumed twice", "a finished message is handed out again", wrapped(QueueBuffer, "finish", _twice), 8),
    Lie(
        "disk lies",
        "names of new files are never on disk",
        replaced(FaultyDisk, "sync_folder", lambda self, path: None),
        3,
        kinds=_POWER,
    ),
    _of_sets(
        "report before flush",
        "a replica reports what is not on its disk",
        replaced(follower._Session, "report", _reports_what_it_got),
        1,
        *_POWER,
    ),
    _of_sets(
        "cut at the wrong epoch",
        "it is cut where the newest lease began",
        wrapped(LeaseState, "cut_position", _cut_too_late),
        124,
        "strand",
    ),
    _of_sets(
        "connections kept",
        "under its next lease a master keeps its replicas, which follow the former one",
        both(
            wrapped(Leader, "part", _kept_connections),
            replaced(ReplicaMembers, "_is_current", lambda self, known: True),
        ),
        710_125,
        "leases away",
    ),
    _of_sets(
        "always sure",
        "an agent believes a store that was set back",
        wrapped(agent.AgentState, "note_record", _sure),
        33,
        "old lease",
    ),
    _of_sets(
        "members are not asked",
        "silence counts as consent",
        replaced(doubt, "lacks_answers", lambda *_, **__: ""),
        56,
        "old lease",
    ),
    _of_sets(
        "watermark ahead",
        "consumers see what replicas do not have",
        wrapped(high_watermark.HighWatermark, "_most", _shown_early),
        1,
        *_CRASHES,
    ),
    Lie(
        "progress ahead",
        "offsets are committed before messages are consumed",
        wrapped(QueueBuffer, "commit_offset", _ahead),
        7,
        kinds=("kill client", "kill broker", "power"),
    ),
    Lie(
        "redrive sends nothing",
        "letters are reported as sent again, and are not",
        replaced(Resender, "attempt", _only_said),
        50610,
        kinds=("redrive",),
        needs_failures=True,
    ),
    Lie(
        "topics outlive their deletion",
        "a deletion is confirmed, and the topic is still there",
        replaced(Topics, "delete", lambda self, topic: True),
        50328,
        kinds=("topics",),
    ),
    *RIGHT_LIES,
    *DAMAGE_LIES,
    *STOP_LIES,
    *PROMISE_LIES,
    *MACHINE_LIES,
)
BY_NAME: Final = {each.name: each for each in (*LIES, *POP_LIES)}


@contextmanager
def planted(name: str) -> Iterator[None]:
    """Inside the block the product has this mistake; none for an empty name. Raises KeyError."""
    if not name:
        yield
        return
    _TOLD.clear()
    with BY_NAME[name].plant():
        yield
