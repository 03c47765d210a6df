"""Group commit (one turn of the event loop): what arrives together is written, flushed and answered together.

    requests of this turn of the loop ─▶ stage, stage, … ─▶ end of the turn: one commit
        async flush ─▶ responses leave at once; ``store.maintenance`` says when the next fsync is due
        sync flush  ─▶ wait for the running fsync, then for the next one, which serves all sends that wait by then
        sync master ─▶ after that, or at once with async flush: wait for replicas, in ``replica_gate``

While a single connection sends, waiting for others only costs time: its group is committed as soon as its requests are
staged (``commit_early``). Owner of everything between a staged message and its response; runs on the loop, only fsync
runs on a worker thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, NamedTuple, Protocol

import msgspec

from pyromq.broker.base.lease import Lease
from pyromq.broker.base.queue_key import QueueKey
from pyromq.broker.base.refusals import refusal_of
from pyromq.broker.base.request_times import RequestTimes
from pyromq.broker.base.workers import JobRunner
from pyromq.broker.commit.touched import Touched
from pyromq.clock import Clock
from pyromq.errors import MQError, StoreError
from pyromq.net.connection import Connection
from pyromq.store.derived.queue_tail import QueueTail
from pyromq.store.log.flushes import FlushJob
from pyromq.store.message_store import MessageStore
from pyromq.store.settings import Flush
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.command import decode_command, encode_command, encode_response
from pyromq.wire.frame import Frame, FrameDecoder, encode_frame
from pyromq.wire.received import Received

logger = logging.getLogger(__name__)

_NOT_FLUSHED = "the message is stored, but the disk did not confirm it in time"
# clients take every code but 0 for "not done" there, and do it again
_WITHOUT_STATUS = frozenset(
    (RequestCode.CONSUMER_SEND_MSG_BACK, RequestCode.END_TRANSACTION, RequestCode.RESUME_CHECK_HALF_MESSAGE)
)
_ALONE_COMMITS = 16  # after so many groups in a row with sends of one connection, it counts as the only one


class SendsOfOneRead(msgspec.Struct, frozen=True, gc=False):
    """Sends that were staged together by the send lane: how many, and how many of them are answered."""

    code: ClassVar[int] = int(RequestCode.SEND_MESSAGE_V2)  # in statistics; nearly all that the lane takes
    sends: int
    responses: int


PendingSend = tuple[Connection, Received[Any] | SendsOfOneRead, bytes]
"""A staged message: its connection, its request, and the response if all goes well (empty for one-way sends).

Of several that were staged together, all responses in one piece; each says whose it is.
"""


OnStored = Callable[[MQError | None], None]
"""Hears of an internal write: None when it is stored as safely as this store promises, else why it is not."""


class WaitingCommit(NamedTuple):
    """The sends of one commit that are answered when they are on disk: once the log is flushed up to ``end``."""

    end: int
    since_ms: int
    sends: list[PendingSend]
    send_count: int

    @property
    def code(self) -> int:
        """The request code that stands for all of them in statistics."""
        return self.sends[0][1].code


class ReplicaWait(Protocol):
    """What a sync master puts between the disk and the responses (``replica_gate``)."""

    waiting: int  # sends that wait for replicas

    def on_visible(self, tell_readers: Callable[[set[QueueKey]], None]) -> None: ...

    def show(self, queues: set[QueueKey]) -> None:
        """More of these is stored: readers see it, and are told, when replicas have it or are not waited for."""

    def hold(self, commit: WaitingCommit) -> None:
        """Answer these sends when replicas have them, or say why not."""

    def hold_internal(self, end: int, internal: list[OnStored]) -> None:
        """Likewise for internal writes."""

    async def drain(self) -> None:
        """Until nothing waits."""


class GroupCommit:
    """Commits at the end of each turn in which something was staged, and answers when that is safe."""

    # named, because Python finds the attributes of objects with more than thirty of them in a slower way
    __slots__ = (
        "_after_flush_more",
        "_alone_commits",
        "_answered_after_flush",
        "_answered_at_commit",
        "_asked_again",
        "_at_commit_more",
        "_before_commit",
        "_clock",
        "_flush_timeout_ms",
        "_flusher",
        "_idle",
        "_internal",
        "_internal_waiting",
        "_loop",
        "_replicas",
        "_running",
        "_running_since_ms",
        "_running_since_s",
        "_scheduled",
        "_sender",
        "_store",
        "_stuck_disk_ms",
        "_sync",
        "_touched",
        "_unflushed_bytes_max",
        "_unseen",
        "_waiting",
        "_waiting_max",
        "_waiting_sends",
        "flushes_early",
        "is_busy",
        "is_stuck",
        "lease",
        "on_durable",
        "on_look",
        "on_visible",
        "times",
        "waits",
    )

    def __init__(
        self,
        store: MessageStore,
        flusher: JobRunner,
        clock: Clock,
        *,
        flush_timeout_ms: int = 5_000,
        stuck_disk_ms: int = 1_000,
        waiting_max: int = 10_000,
        unflushed_bytes_max: int = 1 << 30,
        times: RequestTimes | None = None,
    ) -> None:
        self._store = store
        self._flusher = flusher
        self._clock = clock
        self.times = times or RequestTimes()
        self._flush_timeout_ms = flush_timeout_ms
        self._stuck_disk_ms = stuck_disk_ms
        self._waiting_max = waiting_max
        self._unflushed_bytes_max = unflushed_bytes_max  # with async flush
        # brought up to date by ``look``
        self.is_busy = False  # too many sends, or too many bytes, wait for the disk: the next sends should wait
        self.is_stuck = False  # one flush takes too long: sends should go elsewhere
        self.on_look: Callable[[], None] = lambda: None
        self.on_visible: Callable[[Touched], None] = lambda queues: None  # readers can see more of these queues
        self.flushes_early = False  # with async flush: at once, not when it is due; replicas get what is on disk
        self.on_durable: Callable[[], None] = lambda: None  # more of the log is on disk
        self._sync = store.settings.flush is Flush.SYNC  # a send is answered when it is on disk
        self.waits = self._sync  # a send waits for the disk, or for replicas, unless its sender does not want to
        self._replicas: ReplicaWait | None = None  # of a sync master: what is on disk waits there
        self.lease: Lease | None = None  # under a failover agent: what leaves without it is a refusal
        self._loop = asyncio.get_running_loop()
        # what is staged and not committed yet
        self._answered_at_commit: list[PendingSend] = []
        self._answered_after_flush: list[PendingSend] = []
        self._at_commit_more = self._after_flush_more = 0  # sends in these, beyond one for each
        self._internal: list[OnStored] = []  # internal writes
        self._before_commit: list[Callable[[], None]] = []  # want to stage something behind everything else
        self._touched = Touched()  # queues of all of these
        # what is committed and not on disk yet
        self._unseen = Touched()  # written queues whose readers cannot see it yet
        self._waiting: deque[WaitingCommit] = deque()  # oldest first
        self._waiting_sends = 0  # in all of them
        self._internal_waiting: deque[tuple[int, list[OnStored]]] = deque()  # safe once the log is flushed up to there
        self._running: FlushJob | None = None  # the fsync that is under way
        self._running_since_ms = 0
        self._running_since_s = 0.0  # the same, to measure it
        self._asked_again = False  # while it runs, someone asked for what it does not cover
        self._scheduled = False  # a commit at the end of this turn of the loop
        self._sender: Connection | None = None  # of the last groups, as long as it was only one
        self._alone_commits = 0  # how many these were
        self._idle = asyncio.Event()  # no fsync is under way
        self._idle.set()

    def wait_for(self, replicas: ReplicaWait | None) -> None:
        """From now on sends are answered when replicas have them, too."""
        self._replicas, self.waits = replicas, self._sync or replicas is not None
        if replicas is not None:
            replicas.on_visible(lambda queues: self._tell_readers(Touched(queues)))

    @property
    def waiting(self) -> int:
        """Sends that wait for the disk."""
        return self._waiting_sends

    def stuck_ms(self) -> int:
        """For how long the disk has been busy with one flush."""
        return self._clock.monotonic_ms() - self._running_since_ms if self._running else 0

    def look(self) -> None:
        """Decide whether the broker is busy; called whenever something changed, and from time to time."""
        is_late = self.stuck_ms() > self._stuck_disk_ms
        if self._sync:
            self.is_stuck = is_late
            self.is_busy = is_late or self._waiting_sends >= self._waiting_max
        else:  # no send waits for a flush, until a power cut would take more than is allowed
            self.is_busy = self._store.unflushed_bytes >= self._unflushed_bytes_max and self._store.health.trusted
            self.is_stuck = self.is_busy and is_late
        if self._replicas is not None and self._replicas.waiting + self._waiting_sends >= self._waiting_max:
            self.is_busy = True
        self.on_look()

    def oldest_wait_ms(self) -> int:
        """For how long the first of them has waited."""
        return self._clock.monotonic_ms() - self._waiting[0].since_ms if self._waiting else 0

    def staged(self, pending: PendingSend, queue: QueueKey, *, wait: bool = True) -> None:
        """Something was staged: it is committed when everything that arrived with it is staged too."""
        if wait and self.waits:
            self._answered_after_flush.append(pending)
        else:
            self._answered_at_commit.append(pending)
        self._touched.keys.add(queue)
        if pending[0] is not self._sender:
            self._sender, self._alone_commits = pending[0], 0
        if not self._scheduled and self._alone_commits < _ALONE_COMMITS:
            self._scheduled = True
            self._loop.call_soon(self._commit)

    def staged_together(
        self, connection: Connection, sends: SendsOfOneRead, responses: bytes, queues: list[QueueTail]
    ) -> None:
        """``staged`` of what the send lane took of one read, and ``commit_early``."""
        if self.waits:
            self._answered_after_flush.append((connection, sends, responses))
            self._after_flush_more += sends.sends - 1
        else:
            self._answered_at_commit.append((connection, sends, responses))
            self._at_commit_more += sends.sends - 1
        self._touched.add_together(queues)
        if connection is not self._sender:
            self._sender, self._alone_commits = connection, 0
        if not self._scheduled:
            if self._alone_commits < _ALONE_COMMITS:
                self._scheduled = True
                self._loop.call_soon(self._commit)
            else:
                self._commit()

    def staged_internally(self, queue: QueueKey, on_stored: OnStored) -> None:
        """An internal write was staged; it shares the commit, and the fsync, with what clients send."""
        self._internal.append(on_stored)
        self._touched.keys.add(queue)
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._commit)

    def before_commit(self, work: Callable[[], None]) -> None:
        """``work`` runs once, before the next commit; what it stages lies behind all else that was staged by then."""
        self._before_commit.append(work)

    @property
    def _has_staged(self) -> bool:
        return bool(self._answered_at_commit or self._answered_after_flush or self._internal)

    def commit_early(self) -> None:
        """All requests of one read are staged: no other connection sends, so none is waited for."""
        if (self._answered_at_commit or self._answered_after_flush) and not self._scheduled:
            self._commit()

    def _commit(self) -> None:
        if self._scheduled and not self._has_staged:  # committed before its time came
            self._scheduled = False
            return
        if self._before_commit:
            self._run_before_commit()
        self._scheduled = False
        self._alone_commits += 1
        at_commit, after_flush, internal = self._answered_at_commit, self._answered_after_flush, self._internal
        at_commit_count = after_flush_count = 0
        if at_commit:
            at_commit_count = len(at_commit) + self._at_commit_more
            self._answered_at_commit, self._at_commit_more = [], 0
        if after_flush:
            after_flush_count = len(after_flush) + self._after_flush_more
            self._answered_after_flush, self._after_flush_more = [], 0
        if internal:
            self._internal = []
        touched, self._touched = self._touched, Touched()
        try:
            end = self._store.commit()
        except Exception as error:  # also a defect: a sender without a response would wait for ever
            refusal = error if isinstance(error, MQError) else StoreError(f"{type(error).__name__}: {error}")
            count, is_defect = at_commit_count + after_flush_count + len(internal), refusal is not error
            logger.error("group commit refused: messages=%d reason=%s", count, refusal, exc_info=is_defect)
            self.refuse(at_commit + after_flush, refusal)
            tell(internal, refusal)
            return
        self.times.commits.observe(at_commit_count + after_flush_count + len(internal))
        if at_commit and self._acknowledge(at_commit, end):
            self.times.answered_at_once[at_commit[0][1].code] += at_commit_count
        if not self._sync:
            if self._replicas is None:
                if internal:
                    self._tell(internal, end)
                self._tell_readers(touched)
            else:
                self._hold(self._replicas, end, after_flush, after_flush_count, internal)
                self._replicas.show(touched.names())
            if self._store.unflushed_bytes * 2 >= self._unflushed_bytes_max:
                self._fall_behind()
            elif self.flushes_early:
                self.flush_soon()
            return
        self._unseen.add_all(touched)
        if internal:
            self._internal_waiting.append((end, internal))
        if after_flush:
            self._waiting.append(WaitingCommit(end, self._clock.monotonic_ms(), after_flush, after_flush_count))
            self._waiting_sends += after_flush_count
            self.look()
        self._flush()

    def _hold(
        self, replicas: ReplicaWait, end: int, sends: list[PendingSend], count: int, internal: list[OnStored]
    ) -> None:
        """With async flush: replicas get what is on disk, so it is brought there."""
        if internal:
            replicas.hold_internal(end, internal)
        if sends:
            replicas.hold(WaitingCommit(end, self._clock.monotonic_ms(), sends, count))
        self.flush_soon()

    def copied(self, queues: set[QueueKey]) -> None:
        """Of a replica: records of these queues were appended, and shall be on disk soon."""
        if self._sync:
            self._unseen.add_all(Touched(queues))
        else:
            self._show(Touched(queues))
        self.flush_soon()

    def _run_before_commit(self) -> None:
        self._scheduled = True  # what they stage belongs to this group
        works, self._before_commit = self._before_commit, []
        for work in works:
            try:
                work()
            except Exception:  # a defect of one must not keep this group, and all that follow, from being committed
                logger.exception("what should be staged before a commit failed")

    # --- flushing ---

    def _fall_behind(self) -> None:
        """With async flush: so much is written and not on disk that the next flush does not wait until it is due."""
        self.flush_soon()
        self.look()

    def _flush(self) -> None:
        if self._running is not None:
            return
        job = self._store.flushes.start()
        if job is None:
            self._nothing_to_flush()
            return
        self._running, self._running_since_ms, self._asked_again = job, self._clock.monotonic_ms(), False
        self._running_since_s = self._clock.monotonic_s()
        self._idle.clear()
        seen_after, self._unseen = self._unseen, Touched()
        self._flusher.run(job.run, partial(self._flushed, job, seen_after))

    def _flushed(self, job: FlushJob, seen: Touched, error: BaseException | None) -> None:
        self._running = None
        self.times.flushes.observe(self._clock.monotonic_s() - self._running_since_s)
        if error is not None:
            self._store.flushes.fail(error if isinstance(error, Exception) else RuntimeError(str(error)))
        elif not self._store.flushes.finish(job):
            error = self._store.health.error()
        if error is not None:
            self._nothing_to_flush()
            return
        while self._waiting and self._waiting[0].end <= job.end:
            self._release_next()
        self.look()
        self._tell_internal(job.end, None)
        self._show(seen)
        self.on_durable()
        if self._sync or self._asked_again:
            self._flush()
        else:  # the next one comes when it is due: else each would start the next, hundreds a second
            self._idle.set()

    def _show(self, queues: Touched) -> None:
        """Their new messages can be read; those of a sync master once replicas have them, too."""
        if self._replicas is not None:
            self._replicas.show(queues.names())
        else:
            self._tell_readers(queues)

    def _tell_readers(self, queues: Touched) -> None:
        try:
            self.on_visible(queues)
        except Exception:  # a defect on the side of readers must not keep writers from their responses
            logger.exception("readers not told of new messages: queues=%d", len(queues.names()))

    def _tell_internal(self, end: int, error: MQError | None) -> None:
        while self._internal_waiting and (error is not None or self._internal_waiting[0][0] <= end):
            position, internal = self._internal_waiting.popleft()
            if error is not None:
                tell(internal, error)
            elif self._replicas is not None:
                self._replicas.hold_internal(position, internal)
            else:
                self._tell(internal, position)

    def _nothing_to_flush(self) -> None:
        """Everything is on disk, or nothing can be trusted to be: either way nothing waits any longer."""
        self._idle.set()
        if not self._store.health.trusted:
            refusal = self._store.health.error()
            while self._waiting:
                self.refuse(self._next_waiting(), refusal)
            self._tell_internal(0, refusal)
            return
        while self._waiting and self._waiting[0].end <= self._store.flushed_position:
            self._release_next()
        seen, self._unseen = self._unseen, Touched()
        self._tell_internal(self._store.flushed_position, None)
        self._show(seen)

    def flush_soon(self) -> None:
        """Bring what is written to disk, although no send waits for it: at once, or after the running flush."""
        self._asked_again = True
        self._flush()

    def commit_now(self) -> None:
        """Commit what is staged at once, for a caller that needs the store as it will be after this group."""
        if self._has_staged:
            self._commit()

    def respond_overdue(self) -> None:
        """Senders that waited too long are told that the message is stored, but not that it is on disk."""
        self.look()
        if (self._waiting or self._internal_waiting) and self._running is None:
            self._flush()
        limit = self._clock.monotonic_ms() - self._flush_timeout_ms
        while self._waiting and self._waiting[0].since_ms < limit:
            if self.lease is not None and not self.lease.is_open:
                self.refuse(self._next_waiting(), self.lease.doubt())
                continue
            waited_ms, oldest = self.oldest_wait_ms(), self._waiting[0]
            respond_unconfirmed(self._next_waiting(), ResponseCode.FLUSH_DISK_TIMEOUT, _NOT_FLUSHED)
            self.times.answered(oldest.code, oldest.send_count, waited_ms, ResponseCode.FLUSH_DISK_TIMEOUT)

    def _release_next(self) -> None:
        """The oldest commit that waits is on disk; if replicas make it wait on, they take its times, too."""
        waited_ms, oldest = self.oldest_wait_ms(), self._waiting[0]
        sends = self._next_waiting()
        if self._replicas is not None:
            self._replicas.hold(oldest)
            return
        if self._acknowledge(sends, oldest.end):
            self.times.answered(oldest.code, oldest.send_count, waited_ms)

    def _next_waiting(self) -> list[PendingSend]:
        waiting = self._waiting.popleft()
        self._waiting_sends -= waiting.send_count
        return waiting.sends

    async def drain(self) -> None:
        """Everything staged up to now is written and answered, and no flush runs; with sync flush all is on disk."""
        while self._scheduled or self._waiting or self._internal_waiting or self._running:
            if self._running:
                await self._idle.wait()
            else:
                await asyncio.sleep(0)
        if self._replicas is not None:
            await self._replicas.drain()

    # --- responses ---

    def _acknowledge(self, sends: list[PendingSend], end: int) -> bool:
        """The log is safe up to ``end``: say so, if this broker is still the one who may; False: it is not."""
        if self.lease is None or self.lease.admits(end):
            respond(sends)
            return True
        self.refuse(sends, self.lease.doubt())
        return False

    def _tell(self, internal: list[OnStored], end: int) -> None:
        tell(internal, None if self.lease is None or self.lease.admits(end) else self.lease.doubt())

    def refuse(self, sends: list[PendingSend], error: Exception) -> None:
        code, remark = refusal_of(error) if isinstance(error, MQError) else (ResponseCode.SYSTEM_ERROR, str(error))
        self._send_error(sends, code, remark)

    def _send_error(self, sends: list[PendingSend], code: ResponseCode, remark: str) -> None:
        for connection, request, response in sends:
            if isinstance(request, SendsOfOneRead):
                self.times.refuse_many(request.code, code, request.sends)
                for frame in FrameDecoder().feed(response):
                    connection.send(encode_response(code, decode_command(frame).correlation_id, remark=remark))
                continue
            self.times.refuse(request, code, in_turn=False)
            if not request.is_oneway:
                connection.send(_error(request, code, remark))


def respond(sends: list[PendingSend]) -> None:
    """What leaves on one connection, and stands side by side, leaves in one write.

    Now, since a turn of the loop for each would cost more.
    """
    last = len(sends) - 1
    for at, (connection, request, response) in enumerate(sends):
        count = request.responses if type(request) is SendsOfOneRead else 1
        try:
            if at < last and sends[at + 1][0] is connection:  # as the sends of one read do
                if response:
                    connection.queue(response, count)
            elif response:
                connection.send_now(response, count)
            else:
                connection.flush()
        except Exception:  # a defect of one connection must not keep the others from their responses
            logger.exception("response not sent: peer=%s", connection.remote_text)
            connection.abort("a response could not be sent")


def tell(internal: list[OnStored], error: MQError | None) -> None:
    for on_stored in internal:
        try:
            on_stored(error)
        except Exception:  # a defect of one must not keep the others from hearing
            logger.exception("the callback of an internal write failed")


def respond_unconfirmed(sends: list[PendingSend], code: ResponseCode, remark: str) -> None:
    """They are stored, but not as safely as they should be.

    What has no status is done, unless it is a send-back that another master, or the disk, may not have: its consumer
    lets go of the message, so it does better to send a second copy than to have none.
    """
    for connection, request, response in sends:
        if isinstance(request, SendsOfOneRead) or request.code not in _WITHOUT_STATUS:
            for each in FrameDecoder().feed(response):
                connection.send(_unconfirmed(each, code, remark))
        elif response:
            is_done = code == ResponseCode.SLAVE_NOT_AVAILABLE or request.code != RequestCode.CONSUMER_SEND_MSG_BACK
            connection.send(response if is_done else _error(request, ResponseCode.SYSTEM_ERROR, remark))


def _error(request: Received[Any], code: ResponseCode, remark: str) -> bytes:
    return encode_response(code, request.correlation_id, remark=remark, serialize_type=request.serialize_type)


def _unconfirmed(response: Frame, code: ResponseCode, remark: str) -> bytes:
    """The same response, with the address of the message, but not the promise."""
    command = decode_command(response)
    if command.code != ResponseCode.SUCCESS:
        return encode_frame(response)
    return encode_command(msgspec.structs.replace(command, code=code, remark=remark))
