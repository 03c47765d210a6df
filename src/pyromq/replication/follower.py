"""Follower: the replica's side of replication. It finds its master, takes over the log, and says how far it is.

    who is master? ─▶ how far is it? ─▶ connect, ask ─▶ same log? ─▶ follow: append, flush, report
         ▲                 └ it has less than we have,      └ it has other bytes: refused, and reported
         └───────────────────── the connection ends ◀──────────────────────────────┘

Before anything is appended the replica reads its own last record again, from the master, and compares: a master that
lost the end of its log and went on, or another log altogether, is noticed there. A replica that cannot follow changes
nothing: it says why, and tries again in case a person mends it. It never cuts its own log.

What it reports is on its disk, and said after the comparison; only then a master of ours counts it. It asks for the
first position of an empty log by asking for the second one, because 0 means "your last file" to RocketMQ; the byte in
between is the first one of a record's length, which is always 0.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from enum import Enum
from functools import partial
from random import Random
from typing import Any, Final, NamedTuple, cast

from pyromq.clock import Clock
from pyromq.errors import MQError, RemoteProtocolError, StoreError
from pyromq.net.address import Address
from pyromq.net.backoff import Backoff
from pyromq.replication.errors import DivergedError, ReplicationRefusedError, TooFarBehindError
from pyromq.replication.repair import LogRepair
from pyromq.replication.settings import ReplicationSettings
from pyromq.store.message_store import MessageStore
from pyromq.wire.transfer import SliceDecoder, encode_name, encode_proof, encode_report

logger = logging.getLogger(__name__)

_CONNECT_S: Final = 5.0
_BACKOFF: Final = Backoff(first_ms=200, ceiling_ms=5_000)
_SOON_MS: Final = 50  # between attempts at a master that is being promoted
_SOON_TIMES: Final = 40
_COMPARED_BYTES_MAX: Final = 8 << 20


class Following(Enum):
    """What a replica is doing."""

    WAITING = "no master is known, or none can be reached"
    CHECKING = "connected: whether the master has the same log is being looked at"
    FOLLOWING = "what the master stores is taken over"
    REFUSED = "the replica must not follow this master: a person has to look"


class MasterLog(NamedTuple):
    """Range of the log that a master has."""

    first: int
    end: int
    takes_names: bool = False  # it is one of ours, which count replicas by their names
    wants_proof: bool = False  # and has access control


async def _no_proof() -> bytes:
    return b""


class Master(NamedTuple):
    """Where a master is; ``log`` asks it over its port for clients, and answers None if that is not known.

    ``prove`` gets a challenge in the same way, and makes the proof that is said at the port for replicas.
    """

    replication_address: Address
    log: Callable[[], Awaitable[MasterLog | None]]
    prove: Callable[[], Awaitable[bytes]] = _no_proof


FindMaster = Callable[[], Awaitable[Master | None]]
OnCopied = Callable[[dict[tuple[str, int], None]], None]


class Follower:
    """Owned by a replica, on its loop: ``run`` in a task, ``flushed`` and ``tick`` as they come."""

    def __init__(
        self,
        store: MessageStore,
        settings: ReplicationSettings,
        clock: Clock,
        rng: Random,
        *,
        find_master: FindMaster,
        on_copied: OnCopied,
        broker_id: int = 0,
    ) -> None:
        """``on_copied`` is notified of the queues of what was appended, and has the log flushed."""
        self.store = store
        self.settings = settings
        self.clock = clock
        self._rng = rng
        self._find_master = find_master
        self.on_copied = on_copied
        self.broker_id = broker_id
        self.name = encode_name(broker_id, silent=settings.silent)
        self.acknowledges = not settings.silent  # else the master never hears more than the first position
        self.repair: LogRepair | None = None  # of what a scrub found
        self.state = Following.WAITING
        self.reason = ""  # why it is not following
        self._logged = ""  # what was logged of that; an attempt that fails like the last one is not logged again
        self.attached = asyncio.Event()  # set while it follows
        self.parted = asyncio.Event()  # set while it does not
        self.parted.set()
        self._moved = asyncio.Event()  # more of the log was flushed
        self._left = asyncio.Event()  # the master is another one: what is under way for the old one ends
        self._session: _Session | None = None

    @property
    def last_heard_ms(self) -> int:
        """When the master was heard last, by the monotonic clock; 0: not since it connected."""
        return self._session.heard_ms if self._session is not None else 0

    @property
    def link(self) -> str:
        """This end of the connection to the master, HOST:PORT; empty without one."""
        return self._session.link if self._session is not None else ""

    def leave(self) -> None:
        """The master that it follows, if it does; it looks for one at once."""
        self._left.set()
        if self._session is not None:
            self._session.abort()

    async def run(self) -> None:
        """Follow the master until cancelled."""
        failures = 0
        try:
            while True:
                began = self.store.end_position
                await self._unless_left(self._follow_once())
                failures = 0 if self.store.end_position > began else failures + 1
                if self._left.is_set():
                    self._left.clear()
                    failures, self.state, self.reason = -_SOON_TIMES, Following.WAITING, "the master is another one"
                delay_ms = _BACKOFF.delay_ms(min(failures, 10), self._rng) if failures >= 0 else _SOON_MS
                await self._unless_left(asyncio.sleep(delay_ms / 1_000))
        finally:
            if self._session is not None:
                self._session.abort()

    async def _unless_left(self, work: Coroutine[Any, Any, None]) -> None:
        """Until the work is done, or the master is another one."""
        working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(self._left.wait())
        try:
            await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            working.cancel()
            leaving.cancel()
            await asyncio.gather(working, leaving, return_exceptions=True)

    async def _follow_once(self) -> None:
        try:
            master = await self._find_master()
            if master is None:
                self._note(Following.WAITING, "no name server knows a master of this name")
                return
            await self._follow(master)
        except ReplicationRefusedError as error:
            self._note(Following.REFUSED, str(error))
        except (MQError, OSError, TimeoutError) as error:
            self._note(Following.WAITING, str(error) or type(error).__name__)
        except Exception as error:  # a defect must not end replication for good
            logger.exception("replication failed, will be tried again")
            self._note(Following.WAITING, f"{type(error).__name__}: {error}")
        finally:
            self.attached.clear()
            self.parted.set()

    async def _follow(self, master: Master) -> None:
        known = await master.log()
        if self.repair is not None and self.repair.is_needed:
            self._note(Following.WAITING, self.store.health.damage)
            as_copy = encode_name(self.broker_id, silent=True)
            introduce, first = partial(_introduction, master, known, as_copy), known.first if known is not None else 0
            await self.repair.run(master.replication_address, introduce, first)
        start = self._start(master, known)
        start = start._replace(introduction=await _introduction(master, known, self.name))
        session = _Session(self, start)
        self._note(Following.CHECKING, "")
        loop, address = asyncio.get_running_loop(), master.replication_address
        async with asyncio.timeout(_CONNECT_S):
            await loop.create_connection(lambda: session, address.host, address.port)
        self._session = session
        try:
            await session.ended
        finally:
            session.abort()
            self._session = None
        if session.failure is not None:
            raise session.failure
        raise RemoteProtocolError(f"the connection to the master's replication port {address} ended")

    def _start(self, master: Master, known: MasterLog | None) -> _Start:
        """Agree with the master where to go on. Raises ReplicationRefusedError, StoreReadOnlyError."""
        store = self.store
        if not store.health.writable:
            raise store.health.error()
        if store.copies.is_empty:
            if known is None or self.settings.from_last_file or known.end <= 0:
                return _Start(asked=0, next=None)
            first = max(0, known.first)
            return _Start(asked=first, next=first) if first else _Start(asked=1, next=0)
        end = store.end_position
        if known is not None and end > known.end:
            raise DivergedError(
                f"the log here goes up to {end}, that of the master at {master.replication_address} only up to "
                f"{known.end}: the master has lost messages that are here, or is another one. Nothing was changed; "
                "look at both before you start either with an empty folder"
            )
        if known is not None and end < known.first:
            raise TooFarBehindError(
                f"the log here goes up to {end}, that of the master begins at {known.first}: start this replica with "
                "an empty folder"
            )
        compared = store.copies.newest_listed()
        first = known.first if known is not None else 0
        if compared is None or end - compared > _COMPARED_BYTES_MAX or compared < first:
            compared = end
        compared = max(1, compared)  # 0 would mean the last file
        return _Start(asked=compared, next=compared)

    def _note(self, state: Following, reason: str) -> None:
        if reason and reason != self._logged:
            self._logged = reason
            if state is Following.REFUSED:
                logger.error("replica does not follow: reason=%s", reason)
            else:
                logger.warning("replica waits: reason=%s", reason)
        if state is Following.FOLLOWING:
            self._logged = ""
            logger.info("replica follows: end=%d", self.store.end_position)
        self.state = state
        if state is not Following.CHECKING:
            self.reason = reason

    def follows(self) -> None:
        """The master has the same log."""
        self._note(Following.FOLLOWING, "")
        self.parted.clear()
        self.attached.set()

    # --- what happens meanwhile ---

    def flushed(self) -> None:
        """More of the log is on disk."""
        self._moved.set()
        if self._session is not None:
            self._session.report()

    def tick(self) -> None:
        """Check for silence; called every second or so."""
        if self._session is not None:
            self._session.tick()

    async def reached(self, position: int) -> None:
        """Until the log here is on disk up to there."""
        while self.store.flushed_position < position:
            self._moved.clear()
            await self._moved.wait()


async def _introduction(master: Master, known: MasterLog | None, name: bytes) -> bytes:
    """What is said before the first position. Raises MQError."""
    if known is None or not known.takes_names:
        return b""
    return (encode_proof(await master.prove()) if known.wants_proof else b"") + name


class _Start(NamedTuple):
    """``asked`` is reported first; ``next`` is the position of the next byte we want, None: the master chooses."""

    asked: int
    next: int | None
    introduction: bytes = b""  # said before it, where the master wants to know whose report it is


class _Session(asyncio.Protocol):
    """One connection to a master."""

    def __init__(self, follower: Follower, start: _Start) -> None:
        self._follower = follower
        self._store = follower.store
        self._asked = self._reported = start.asked
        self._introduction = start.introduction
        self._next = start.next  # position of the next byte that belongs into the buffer
        self._buffer = bytearray()  # not yet appended: compared, or the start of a record
        if start.next == 0 and start.asked == 1:
            self._buffer += b"\0"
            self._next = 1
        self._decoder = SliceDecoder()
        self._touched: dict[tuple[str, int], None] = {}  # queues of what was appended since ``on_copied``
        self._has_more = False  # something was
        self._transport: asyncio.Transport | None = None
        self._same = start.next is None or start.next >= self._store.end_position  # nothing has to be compared
        self.failure: Exception | None = None
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.heard_ms = self._said_ms = follower.clock.monotonic_ms()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)  # uvloop's is none, but has everything that one has
        self._transport = transport
        transport.write(self._introduction + encode_report(self._asked))

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._report()
        self.failure = self.failure or error
        if not self.ended.done():
            self.ended.set_result(None)

    def abort(self) -> None:
        self._report()
        if self._transport is not None:
            self._transport.abort()

    @property
    def link(self) -> str:
        name = self._transport.get_extra_info("sockname") if self._transport is not None else None
        return f"{name[0]}:{name[1]}" if name else ""

    def _fail(self, error: Exception) -> None:
        self.failure = self.failure or error
        self.abort()

    def data_received(self, data: bytes) -> None:
        self.heard_ms = self._follower.clock.monotonic_ms()
        if self.failure is not None:
            return
        if self._same and self._follower.state is Following.CHECKING:
            self._is_follower()  # not before: a master that refuses a replica says nothing
        try:
            for position, part in self._decoder.feed(data):
                if part:
                    self._add(position, part)
            self._take()
            if not self._decoder.is_inside:
                self._report()
        except Exception as error:  # whatever it is, the connection ends with it; ``Follower`` logs it
            self._fail(error)

    def _add(self, position: int, part: memoryview) -> None:
        if self._next is None:  # the master has chosen where to begin
            if position:
                self._store.copies.begin_at(position)
            self._next = position
        if position != self._next:
            raise RemoteProtocolError(f"the master sent position {position}, but {self._next} comes next")
        self._buffer += part
        self._next += len(part)

    def _take(self) -> None:
        store, buffer = self._store, self._buffer
        if not self._same and not self._compare():
            return
        if len(buffer) < 8 or len(buffer) < int.from_bytes(buffer[:4], "big") <= store.settings.segment_bytes:
            return  # not even one record
        assert self._next is not None
        position = self._next - len(buffer)
        if store.copies.is_empty and position:
            store.copies.begin_at(position)
        before = store.end_position
        try:
            self._touched |= store.copies.take(buffer)
        finally:  # what was taken before something failed counts, too
            del buffer[: store.end_position - before]
            self._has_more |= store.end_position > before

    def _report(self) -> None:
        """At the end of a slice, or when no more of it comes: a flush amid it would make its end wait for the next."""
        if self._has_more:
            touched, self._touched, self._has_more = self._touched, {}, False
            self._follower.on_copied(touched)

    def _compare(self) -> bool:
        """Whether the buffer begins with what our log ends with, once enough has come. Raises DivergedError."""
        assert self._next is not None
        store, buffer = self._store, self._buffer
        start = self._next - len(buffer)
        size = min(len(buffer), store.end_position - start)
        if bytes(buffer[:size]) != bytes(store.records.bytes_at(start, size)):
            raise DivergedError(
                f"the master has other bytes than this replica between position {start} and {start + size}: their logs "
                "are different. Nothing was changed; look at both before you start either with an empty folder"
            )
        if start + size < store.end_position:
            return False
        del buffer[:size]
        self._same = True
        self._is_follower()
        return True

    def _is_follower(self) -> None:
        """The logs are the same, and the master may count what is here."""
        self._follower.follows()
        if self._follower.acknowledges:
            self._reported = self._store.flushed_position
            self._say()

    # --- what the master hears ---

    def report(self) -> None:
        """How much is on disk, if that is more than was said before."""
        position = self._store.flushed_position
        if self._same and self._follower.acknowledges and position > self._reported:
            self._reported = position
            self._say()

    def _say(self) -> None:
        if self._transport is not None:
            self._said_ms = self._follower.clock.monotonic_ms()
            self._transport.write(encode_report(self._reported))

    def tick(self) -> None:
        now, settings = self._follower.clock.monotonic_ms(), self._follower.settings
        self._report()
        if not self._store.health.trusted:  # nothing will be on disk any more: the master must not wait for it
            self._fail(self._store.health.error())
        elif self._store.health.damage:  # nobody may count on this copy, nor make it master, before it is mended
            self._fail(StoreError(self._store.health.damage))
        elif now - self.heard_ms > settings.silence_ms_max:
            self._fail(RemoteProtocolError("the master was silent for too long"))
        elif now - self._said_ms >= settings.heartbeat_interval_ms:
            self._say()
