"""Pops of a broker: what is handed out to whom, and what comes again (see the room's docstring).

Everything runs on the loop. What a consumer did not acknowledge in time is ready again, without a copy: its row says
how often it was delivered. Waiting pops are woken by new messages, by rows that become ready, and by acknowledgements
that free a message group.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

from pyromq.broker.base.environment import Environment
from pyromq.broker.base.stats import Counters
from pyromq.broker.base.window_counters import CALL, MESSAGE
from pyromq.broker.popping.calls import PopRequest, PopResult, Portion
from pyromq.broker.popping.dead import DeadLetters
from pyromq.broker.popping.journal import PopJournal, Writes
from pyromq.broker.popping.plans import Plans, PopPlan, Source
from pyromq.broker.popping.receipts import (
    TopicKind,
    receipt_numbers,
)
from pyromq.broker.popping.settling import Settler
from pyromq.broker.popping.taking import AGAIN_MS, Pop, Taker, has_free, has_room
from pyromq.broker.popping.waiting import ANYBODY, WaitingPops
from pyromq.broker.state.tables import Tables
from pyromq.compiled_core import PlainPops, core
from pyromq.store.in_flight.queue import InFlightQueue, QueueName
from pyromq.store.in_flight.table import InFlightTable
from pyromq.store.message_store import MessageStore
from pyromq.wire.fast.responses import pop_response_pieces
from pyromq.wire.frame import FRAME_BYTES_MAX

logger = logging.getLogger(__name__)

_BURIED_MAX: Final = 200  # dead letters of one tick
_ATTEMPT_IDS_MAX: Final = 10_000
_IDLE_MS: Final = 600_000  # a queue that nobody popped for so long, and of which nothing is in flight, is forgotten
_LOOK_MS: Final = 1_000


class Pops:
    """Hands out, settles, revives; one for a broker that is master."""

    def __init__(
        self,
        environment: Environment,
        tables: Tables,
        store: MessageStore,
        writes: Writes,
        table: InFlightTable,
        counters: Counters,
    ) -> None:
        self._settings = environment.settings
        self._clock = environment.clock
        self._store = store
        self._progress = tables.progress
        self._groups = tables.groups
        self._counters = counters
        self.table = table
        self.journal = PopJournal(table, writes, environment.clock)
        self.journal.on_settled = self._settled
        self.plans = Plans(environment, tables)
        self.core_lane: PlainPops | None = None  # what the compiled core has of it, if there is one
        if core is not None:
            self.core_lane = store.reader.scan.new_pop_lane(core, FRAME_BYTES_MAX, pop_response_pieces())
        self._new_number = receipt_numbers()
        self._taker = Taker(store, self.journal, self._settings.name, self.core_lane)
        self._dead = DeadLetters(tables.topics, self.journal, writes.put, counters)
        self._dead.on_failed = self._bury_later
        self.settler = Settler(
            table, self.journal, self._taker, self._dead, environment.clock, self._new_number, self._settings.name
        )
        self.waiting = WaitingPops(environment, self._taker, self.take, self.has_some)
        self._revived: dict[tuple[str, str], None] = {}  # groups and topics of which rows became ready, unreported
        self._attempt_ids: OrderedDict[tuple[QueueName, str], tuple[int, list[int]]] = OrderedDict()
        self._committed: dict[QueueName, int] = {}  # as it was committed here: another value is somebody else's
        self._looked_ms = 0

    def adopt_offsets(self) -> None:
        """Take offsets from the journal when a master starts: it is newer than the table of offsets."""
        now_ms = self._clock.monotonic_ms()
        for queue in self.table.queues.values():
            queue.used_ms = now_ms
            self._commit(queue)

    # --- pop ---

    async def pop(self, request: PopRequest, owner: object = ANYBODY) -> PopResult | None:
        """Messages, at once or within ``poll_ms``; None when there were none. Raises RefusedError."""
        plan = self.plans.plan(request)
        result = self.take(plan)
        if result is not None or request.poll_ms <= 0:
            return result
        return await self._waited(plan, owner, only_look=False)

    async def wait(self, request: PopRequest, owner: object = ANYBODY) -> bool:
        """Whether a pop would find something, now or within ``poll_ms``. Raises RefusedError."""
        plan = self.plans.plan(request)
        if self.has_some(plan):
            return True
        return request.poll_ms > 0 and await self._waited(plan, owner, only_look=True) is not None

    async def _waited(self, plan: PopPlan, owner: object, *, only_look: bool) -> PopResult | None:
        future: asyncio.Future[PopResult | None] = asyncio.get_running_loop().create_future()

        def respond(result: PopResult | None) -> None:
            if not future.cancelled():
                future.set_result(result)
            elif result is not None:
                self.settler.give_back(result)

        deadline_ms = self._clock.monotonic_ms() + plan.request.poll_ms
        held = self.waiting.hold(plan, deadline_ms, respond, owner, only_look=only_look)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            self.waiting.release(held)
            if future.done() and (result := future.result()) is not None:
                self.settler.give_back(result)
            raise

    def take(self, plan: PopPlan) -> PopResult | None:
        """What there is at this moment; None when there is nothing, or hand-outs cannot be written down."""
        if not self.journal.takes_hand_outs:
            return None
        request = plan.request
        now_ms = self._clock.now_ms()
        pop = Pop(plan, self._new_number(), now_ms, now_ms + request.invisible_ms)
        if self.table.has_expired(now_ms):
            self._revive(now_ms)  # in order mode, what lies behind must not be first
        left, portions = request.count, list[Portion]()
        self._taker.is_unfinished = False
        for source in self.plans.sources(plan):
            portion = self._take_from(pop, source, left)
            if portion is not None:
                portions.append(portion)
                left -= len(portion.offsets)
                if left <= 0:
                    break
        if not portions:
            self._counters.pulls_missed += 1
            return None
        return self._counted(
            PopResult(
                request=request,
                broker=self._settings.name,
                number=pop.number,
                popped_ms=pop.now_ms,
                invisible_ms=request.invisible_ms,
                portions=portions,
            )
        )

    def _take_from(self, pop: Pop, source: Source, count: int) -> Portion | None:
        request, name = pop.plan.request, source.name
        queue = self._queue(request, source)
        queue.used_ms = self._clock.monotonic_ms()
        if request.order and request.attempt_id:
            key = name, request.attempt_id
            lost = self._attempt_ids.pop(key, None)
            portion = self._taker.take_again(pop, source, queue, lost[1], lost[0]) if lost else None
            portion = portion or self._taker.take(pop, source, queue, count)
            if portion is not None:
                self._attempt_ids[key] = pop.number, list(portion.offsets)
                if len(self._attempt_ids) > _ATTEMPT_IDS_MAX:
                    self._attempt_ids.popitem(last=False)
        else:
            portion = self._taker.take(pop, source, queue, count)
        if queue.low != self._committed.get(name):
            self._commit(queue)
        if portion is not None:
            self._progress.note_pulled((source.topic, request.group, source.queue_id), queue.next)
        return portion

    def has_some(self, plan: PopPlan) -> bool:
        """Whether ``take`` might find something; filters are not asked."""
        now_ms = self._clock.now_ms()
        self._revive(now_ms)
        for source in self.plans.sources(plan):
            queue = self._known(source.name)
            known = self._store.reader.range_of(source.topic, source.queue_id)
            end = known.end if known is not None else 0
            if queue is None:  # a pop decides where the group begins
                if self._start(plan.request, source) < end:
                    return True
                continue
            if queue.next < end and has_room(queue, order=plan.request.order):
                return True
            if has_free(queue, now_ms) if plan.request.order else queue.has_ready(now_ms):
                return True
        return False

    def _counted(self, result: PopResult) -> PopResult:
        counters, count, size_bytes = self._counters, 0, 0
        for portion in result.portions:
            count += len(portion.offsets)
            size_bytes += portion.size_bytes
        counters.pulls_found += 1
        counters.pulled_messages += count
        counters.pulled_bytes += size_bytes
        counters.gets[result.request.topic, result.request.group] += CALL + count * MESSAGE + size_bytes
        return result

    # --- queues of groups ---

    def _known(self, name: QueueName) -> InFlightQueue | None:
        """The queue, unless the group never popped it, or somebody else committed another offset."""
        queue = self.table.queues.get(name)
        if queue is not None and self._progress.committed(*name) != self._committed.get(name):
            self._forget(queue)
            return None
        return queue

    def _queue(self, request: PopRequest, source: Source) -> InFlightQueue:
        name = source.name
        queue = self._known(name)
        if queue is not None:
            return queue
        self._progress.take_reset(*name)
        if (committed := self._progress.committed(*name)) is not None:
            self._committed[name] = committed
        return self.table.queue(name, lambda: self._start(request, source))

    def _start(self, request: PopRequest, source: Source) -> int:
        """Where a group begins that was never here."""
        committed = self._progress.committed(request.group, source.topic, source.queue_id)
        if committed is not None:
            return committed
        known = self._store.reader.range_of(source.topic, source.queue_id)
        if known is None:
            return 0
        if not request.newest or source.kind != TopicKind.NORMAL:
            return known.first
        is_young = known.first == 0 and self._store.end_position <= self._store.settings.hot_bytes
        return 0 if is_young else max(known.first, known.end - 1)  # RocketMQ's rule: a fresh topic is read whole

    def _forget(self, queue: InFlightQueue) -> None:
        """Somebody else committed another offset, or deleted it: from there the group goes on."""
        logger.info("offset committed by others, pops go on there: group=%s topic=%s queue=%d", *queue.name)
        self._committed.pop(queue.name, None)
        self.journal.forget(queue)

    def _commit(self, queue: InFlightQueue) -> None:
        name = queue.name
        if self._progress.has_room(*name):
            self._progress.commit(*name, queue.low)
            self._committed[name] = queue.low

    # --- what happens by itself ---

    def _settled(self, queues: Iterable[InFlightQueue]) -> None:
        """Rows of these are gone, or have another time."""
        freed: dict[tuple[str, str], None] = {}
        for queue in queues:
            if self.table.queues.get(queue.name) is queue:
                self._commit(queue)
                if queue.keys:
                    freed[queue.name.group, queue.name.topic] = None
        if len(self.waiting):
            self.tick_expired()  # a change to 0 makes visible at once
            for group, topic in freed:
                self.waiting.wake_group(group, topic)

    @property
    def has_revived(self) -> bool:
        """Whether a pop came upon expired messages of others, whose waiting pops the next tick wakes."""
        return bool(self._revived)

    def tick(self) -> None:
        """With every tick, while this broker may write."""
        self.journal.tick()
        self.tick_expired()
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._looked_ms >= _LOOK_MS:
            self._looked_ms = now_ms
            self.look_around()

    def tick_expired(self) -> None:
        """Messages whose time is over are ready again, or dead."""
        self._revive(self._clock.now_ms())
        woken, self._revived = self._revived, {}
        if len(self.waiting):
            for group, topic in woken:
                self.waiting.wake_group(group, topic)

    def _revive(self, now_ms: int) -> None:
        """Make expired messages available again without waking waiting pops; the next tick does that."""
        buried = 0
        for queue, out, offsets in self.table.expired(now_ms):
            if out.attempts < self._attempts_max(queue.name.group):
                queue.make_ready(offsets)
                self._revived[queue.name.group, queue.name.topic] = None
                continue
            room = max(0, _BURIED_MAX - buried)
            self._bury(queue, offsets[:room])
            buried += len(offsets[:room])
            if offsets[room:]:
                self.table.watch(queue, out)

    def _attempts_max(self, group: str) -> int:
        config = self._groups.find(group)
        return max(0, config.retry_max_times) + 1 if config is not None else 1 << 30

    def _bury(self, queue: InFlightQueue, offsets: list[int]) -> None:
        found, gone = self._taker.records(queue, offsets, self._clock.now_ms())
        if gone:
            self.journal.ack(queue, gone)
        for offset, record in found.items():
            self._dead.bury(queue, offset, record, queue.name.topic)

    def _bury_later(self, queue: InFlightQueue, offset: int) -> None:
        self.table.postpone(queue, offset, self._clock.now_ms() + AGAIN_MS)

    def look_around(self) -> None:
        """Once a second: offsets that others committed, and queues that nobody pops any more."""
        now_ms = self._clock.monotonic_ms()  # the committed offset is on disk by then, however a wall clock jumps
        for name, queue in list(self.table.queues.items()):
            if name in self._committed and self._progress.committed(*name) != self._committed[name]:
                self._forget(queue)
            elif not queue.rows and now_ms - queue.used_ms > _IDLE_MS:
                self._committed.pop(name, None)
                self.journal.forget(queue)
