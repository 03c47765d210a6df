"""A broker's transactions without sockets: a store in memory, a clock that stands still, producers that write down."""

from __future__ import annotations

from typing import Any, cast

from pyromq.broker.base.refusals import RefusedError, refusal_of
from pyromq.broker.base.settings import BrokerSettings
from pyromq.broker.base.stats import Counters
from pyromq.broker.commit.touched import Touched
from pyromq.broker.commit.write_path import open_write_path
from pyromq.broker.delays.delays import Delays
from pyromq.broker.state.members import Members
from pyromq.broker.state.progress import Progress
from pyromq.broker.transactions.transaction_checks import SPAN_MAX, TransactionChecks
from pyromq.broker.transactions.transaction_log import TransactionLog
from pyromq.broker.transactions.transactions import TransactionHandler
from pyromq.errors import ConnectionLostError, MQError
from pyromq.model.names import HALF_TOPIC, OP_HALF_TOPIC
from pyromq.model.system_names import TRANSACTION_GROUP
from pyromq.net import Connection
from pyromq.store.message_store import MessageStore, Placed
from pyromq.store.settings import Flush, StoreSettings
from pyromq.store.tables.offsets import OffsetTable
from pyromq.testing import FaultyDisk, ManualClock
from pyromq.wire.command import encode_response
from pyromq.wire.flags import TRANSACTION_MASK
from pyromq.wire.headers.admin import ResumeCheckHalfMessageHeader
from pyromq.wire.headers.callback import CheckTransactionHeader
from pyromq.wire.headers.producer import EndTransactionHeader
from pyromq.wire.message_id import Host, encode_offset_id
from pyromq.wire.record import Draft, Record, split_records
from tests.unit.broker.builders import ROOT, Wire, environment, producer_heartbeat, request, tables, topics
from tests.unit.broker.workers import PromptThread
from tests.unit.net.fakes import turn

COMMIT, ROLLBACK = 8, 12
BORN_MS = 1_600_000_000_000  # the clocks of producers may be anywhere


class Asked:
    """A producer's connection: keeps the questions it gets."""

    def __init__(self, *, lost: bool = False, congested: bool = False) -> None:
        self.questions: list[tuple[CheckTransactionHeader, bytes]] = []
        self.lost, self.is_congested = lost, congested

    def request_oneway(self, code: int, header: CheckTransactionHeader, body: bytes) -> None:
        if self.lost:
            raise ConnectionLostError("gone", peer="10.0.0.1:1")
        self.questions.append((header, body))


class Rig:
    """Make it inside a running loop; ``reopen`` makes another one on the same disk."""

    def __init__(
        self,
        disk: FaultyDisk | None = None,
        clock: ManualClock | None = None,
        *,
        flush: Flush = Flush.SYNC,
        span_max: int = SPAN_MAX,
        **changes: Any,
    ) -> None:
        self.disk, self.clock = disk or FaultyDisk(), clock or ManualClock()
        store = StoreSettings(flush=flush, segment_bytes=1 << 14, index_slots=10, index_entries=50)
        self.settings = BrokerSettings(**{"store": store} | changes)
        self.store = MessageStore.open(ROOT, self.settings.store, disk=self.disk, clock=self.clock)
        self.woken: set[tuple[str, int]] = set()
        self.topics, _ = topics(self.settings, disk=self.disk)
        self.topics.create("orders", queues=4)
        self.members: Members[Connection] = Members(self.clock)
        self.progress = Progress(OffsetTable.load(self.disk, ROOT), self.clock)
        self.counters = Counters()
        around = environment(self.settings, self.clock, self.disk)
        write_path = open_write_path(around, self.store, PromptThread(), self.counters, lambda *_: None)
        self.group_commit = write_path.group_commit
        write_path.readers.join(self)
        self.log = TransactionLog(write_path, self.progress, self.clock)
        delays = Delays(self.settings, self.clock)
        state = tables(topics=self.topics, members=self.members, progress=self.progress)
        self.handler = TransactionHandler(around, self.topics, write_path, self.log, delays, self.counters)
        self.checks = TransactionChecks(around, state, write_path, self.log, span_max=span_max)

    def wake(self, queues: Touched) -> None:
        self.woken.update(queues.names())

    # --- what clients do ---

    def stage_prepared(self, key: str, text: str = "", *, wire: Wire | None = None, body: str = "") -> Placed:
        """What the send handler does with a message that is part of a transaction."""
        sent = f"TRAN_MSG\x01true\x02PGROUP\x01payers\x02UNIQ_KEY\x01{key}\x02{text}"
        place = self.handler.prepare("orders", 1, sent, key)
        draft = Draft(
            topic=place.topic,
            queue_id=place.queue_id,
            body=(body or f"body of {key}").encode(),
            properties=place.properties.encode(),
            sys_flag=4 & ~TRANSACTION_MASK,
            born_ms=BORN_MS,
        )
        placed, response = self.store.stage(draft), encode_response(0, 0)
        self.group_commit.staged(((wire or Wire()).as_connection, request(), response), (place.topic, place.queue_id))
        return placed

    async def prepared(self, key: str, text: str = "", *, body: str = "") -> Placed:
        placed = self.stage_prepared(key, text, body=body)
        await self.settled()
        return placed

    def stage_end(self, prepared: Placed, ending: int, wire: Wire, *, oneway: bool = False, **changes: Any) -> None:
        fields: dict[str, Any] = {
            "producer_group": "payers",
            "tran_state_table_offset": prepared.offset,
            "commit_log_offset": prepared.position,
            "commit_or_rollback": ending,
            "msg_id": "K",
        }
        self.handler.end(wire.as_connection, request(header=EndTransactionHeader(**fields | changes), oneway=oneway))

    async def end(self, prepared: Placed, ending: int = COMMIT, **changes: Any) -> int:
        """The code of the response; -1 when there is none."""
        wire = Wire()
        try:
            self.stage_end(prepared, ending, wire, **changes)
        except RefusedError as error:
            return int(error.code)
        await self.settled()
        return wire.codes[0] if wire.codes else -1

    async def resume(self, position: int) -> int:
        wire = Wire()
        header = ResumeCheckHalfMessageHeader(msg_id=encode_offset_id(Host(b"\x7f\0\0\1", 10911), position))
        try:
            self.handler.resume(wire.as_connection, request(header=header))
        except MQError as error:
            return int(refusal_of(error)[0])
        await self.settled()
        return wire.codes[0] if wire.codes else -1

    def connect(self, client_id: str, group: str = "payers", **kind: bool) -> Asked:
        asked = Asked(**kind)
        self.members.heard_from(cast(Connection, asked), producer_heartbeat(client_id, group), "JAVA", 450)
        return asked

    # --- what happens by itself ---

    async def settled(self) -> None:
        self.group_commit.commit_now()
        await turn()
        await turn()

    async def round(self, after_ms: int = 30_000) -> None:
        """Time passes, and a whole round of checks with it."""
        self.clock.advance_ms(after_ms)
        for _ in range(4):
            self.checks.tick()
            await self.settled()

    async def close(self) -> None:
        self.checks.tick()
        await self.settled()
        self.checks.tick()
        self.progress.table.save()
        self.store.close()

    async def reopen(self, **changes: Any) -> Rig:
        await self.close()
        return Rig(self.disk, self.clock, **changes)

    # --- what is to be seen ---

    def records(self, topic: str, queue_id: int = 0) -> list[Record]:
        known = self.store.reader.range_of(topic, queue_id)
        found: list[Record] = []
        while known and known.first + len(found) < known.end:
            read = self.store.reader.read(topic, queue_id, known.first + len(found))
            found += split_records(read.to_bytes())
        return found

    def bodies(self, topic: str = "orders", queue_id: int = 1) -> list[str]:
        return [record.body.decode() for record in self.records(topic, queue_id)]

    @property
    def op_bodies(self) -> list[str]:
        return self.bodies(OP_HALF_TOPIC, 0)

    @property
    def committed(self) -> tuple[int | None, int | None]:
        """How far the half topic and the op topic are done with."""
        return (
            self.progress.committed(TRANSACTION_GROUP, HALF_TOPIC, 0),
            self.progress.committed(TRANSACTION_GROUP, OP_HALF_TOPIC, 0),
        )
