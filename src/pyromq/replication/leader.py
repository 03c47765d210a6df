"""Leader: the master's side of replication. It listens for replicas and sends each what it misses of the log.

    log flushed further ─▶ every replica: slices, as many as its connection takes ─▶ reports ─▶ ``on_report``

Only what is on the master's own disk is sent. So no crash of the master can take back what a replica has, and a replica
may show everything that it has. A replica that asks for what the master does not have is refused and logged: either its
log is not a copy of this one, or the master has lost messages.

Who connects is a stranger until it has introduced itself, and with access control proved that it is a replica.
Strangers get nothing, count for nothing and have a few seconds; as many of them as there may be replicas are kept, and
the oldest makes place for the next one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final, cast

from pyromq.clock import Clock
from pyromq.errors import PositionOutOfRangeError
from pyromq.net.address import Address
from pyromq.replication.introduction import Introduction
from pyromq.replication.proofs import Challenges
from pyromq.replication.replicas import ReplicaConnection, Replicas
from pyromq.replication.settings import ReplicationSettings
from pyromq.store.message_store import MessageStore
from pyromq.wire.transfer import ReportDecoder, encode_head

logger = logging.getLogger(__name__)

_FAREWELL_S: Final = 3.0  # replicas that take longer miss something; they get it when the master is back
_REFUSED_REPORTED_MAX: Final = 1_000
_INTRODUCTION_MS: Final = 3_000  # a stranger that takes longer is closed
_TURN_BYTES: Final = 2 << 20  # sent to one replica before others have their turn
_BUFFERED_BYTES: Final = 1 << 20  # of one connection, before it has to take them


class Leader:
    """Owned by a master, on its loop: ``start``, then ``flushed`` and ``tick`` as they come, ``stop``."""

    def __init__(
        self,
        store: MessageStore,
        settings: ReplicationSettings,
        clock: Clock,
        challenges: Challenges | None = None,
        *,
        replicas: Replicas | None = None,
        on_report: Callable[[], None] = lambda: None,
    ) -> None:
        """With ``challenges`` replicas have to prove themselves, unless their addresses are proof enough.

        ``on_report`` runs when a replica has more, is new, or is gone.
        """
        self._store = store
        self.challenges = challenges
        self.settings = settings
        self.clock = clock
        self.replicas = replicas if replicas is not None else Replicas(settings)
        self.on_report = on_report
        self._links: dict[ReplicaLink, None] = {}
        self._strangers: dict[ReplicaLink, None] = {}  # connected, not introduced yet; the oldest first
        self._server: asyncio.Server | None = None
        self._ended = asyncio.Event()  # a link has
        self._refused: set[tuple[str, str]] = set()  # addresses and reasons; each is logged once

    @property
    def is_listening(self) -> bool:
        """Not yet while a broker becomes the master and is asked things already, no longer while it hands over."""
        return self._server is not None and bool(self._server.sockets)

    @property
    def address(self) -> Address:
        """Address at which replicas connect."""
        assert self._server is not None, "the leader has not been started"
        host, port = self._server.sockets[0].getsockname()[:2]
        return Address(host, port)

    async def start(self, port: int) -> None:
        """Listen for replicas. Raises OSError."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: ReplicaLink(self), self.settings.host, port)
        logger.info("replicas may connect: address=%s role=%s", self.address, self.settings.role.value)

    async def stop(self, *, send_all: bool = True) -> None:
        """``send_all``: replicas get what they miss first, and say farewell; some seconds at most."""
        if self._server is None:
            return
        self._server.close()
        if send_all:
            await self._send_all()
        self.part("the master stops")
        await asyncio.sleep(0)  # their transports hear of it
        self._server = None

    def part(self, reason: str) -> None:
        """End all connections; replicas may connect again."""
        for link in [*self._links, *self._strangers]:
            link.close(reason)

    async def _send_all(self) -> None:
        for link in list(self._links):
            link.finish()
        try:
            async with asyncio.timeout(_FAREWELL_S):
                while self._links:
                    self._ended.clear()
                    await self._ended.wait()
        except TimeoutError:
            behind = [f"{each.name} at {each.position}" for each in self.replicas if each.sent < self.end]
            if behind:
                logger.warning("master stops before replicas have everything: end=%d replicas=%s", self.end, behind)

    def flushed(self) -> None:
        """More of the log is on disk."""
        for link in list(self._links):
            link.send_more()
        self.replicas.notice_stalls(self.clock.monotonic_ms())

    def tick(self) -> None:
        """Every second or so: signs of life, and an end to connections that give none."""
        for link in [*self._links, *self._strangers]:
            link.tick()
        if self.replicas.notice_stalls(self.clock.monotonic_ms()):
            self.on_report()

    # --- for links ---

    @property
    def end(self) -> int:
        """Replicas get the log up to here."""
        return self._store.flushed_position

    def may_speak(self, link: ReplicaLink, host: str) -> bool:
        """Whether a stranger may introduce itself."""
        if not self.settings.allows(host):
            return self._refuse(host, "its address is not in replication.replica_addresses")
        if len(self._strangers) >= self.settings.connections_max:
            next(iter(self._strangers)).close("others wait")
        self._strangers[link] = None
        return True

    def admitted(self, link: ReplicaLink, host: str, proof: bytes) -> bool:
        """Whether a stranger that has introduced itself is one of the replicas from now on."""
        if not self._is_proven(host, proof):
            return self._refuse(
                host,
                "it has not proved that it is a replica: give it the access.inner_credentials of this broker, or name "
                "its address in replication.unproven_addresses if it is a broker of Apache's",
            )
        if len(self._links) >= self.settings.connections_max:
            return self._refuse(host, "there are replication.connections_max connections already")
        self._strangers.pop(link, None)
        self._links[link] = None
        return True

    def _is_proven(self, host: str, proof: bytes) -> bool:
        return self.challenges is None or self.settings.is_proven_by(host) or self.challenges.is_met(proof)

    def first_position(self, host: str, asked: int) -> int | None:
        """From where on a replica gets the log; None when it cannot have what it asks for."""
        if asked == 0:  # RocketMQ's way to say that it has nothing: it gets the last file
            segment_bytes = self._store.settings.segment_bytes
            return max(self._store.first_position, self.end - self.end % segment_bytes)
        if asked < 0:
            self._refuse(host, f"it says that it has a log up to {asked}")
        elif asked > self.end:  # a copy never has more than what is on disk here
            self._refuse(
                host,
                f"it has a log up to {asked}, this one ends at {self.end}: they are not copies of each "
                "other, or this master has lost messages; look at both before you start either with an empty folder",
            )
        elif asked < self._store.first_position:
            first = self._store.first_position
            self._refuse(host, f"it needs position {asked}, the log begins at {first}: start it with an empty folder")
        else:
            return asked
        return None

    def _refuse(self, host: str, reason: str) -> bool:
        kind = host, reason.partition("up to")[0]
        if kind not in self._refused and len(self._refused) < _REFUSED_REPORTED_MAX:
            self._refused.add(kind)
            logger.error("replica refused: address=%s reason=%s", host, reason)
        return False

    def slice_at(self, position: int) -> memoryview:
        """Bytes as they lie in a file of the log. Raises PositionOutOfRangeError when retention has deleted it."""
        segment_bytes = self._store.settings.segment_bytes
        room = segment_bytes - position % segment_bytes
        size = min(self.settings.slice_bytes, self.end - position, room)
        return self._store.records.bytes_at(position, size)

    def ended(self, link: ReplicaLink) -> None:
        self._strangers.pop(link, None)
        if link in self._links:
            del self._links[link]
            self._ended.set()


class ReplicaLink(asyncio.Protocol):
    """One connection of a replica."""

    def __init__(self, leader: Leader) -> None:
        self._leader = leader
        self._decoder = ReportDecoder()
        self._transport: asyncio.Transport | None = None
        self._replica = ReplicaConnection("", "")  # until its address is known and allowed
        self._introduction = Introduction()
        self._started = False  # it has said from where on
        self._paused = False  # it does not take what is sent
        self._arranged = False  # ``send_more`` comes by itself
        self._finishes = False  # after all was sent, it says farewell
        self._heard_ms = self._sent_ms = leader.clock.monotonic_ms()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)  # uvloop's is none, but has everything that one has
        self._transport = transport
        peer = transport.get_extra_info("peername") or ("", 0)
        if not self._leader.may_speak(self, str(peer[0])):
            transport.abort()
            return
        transport.set_write_buffer_limits(high=_BUFFERED_BYTES)
        self._replica = ReplicaConnection(str(peer[0]), f"{peer[0]}:{peer[1]}")
        logger.debug("connected to the port for replicas: peer=%s", self._replica.name)

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._leader.ended(self)
        if self._started:
            self._leader.replicas.disconnected(self._replica)
            logger.info("replica gone: replica=%s position=%d", self._replica.name, self._replica.position)
            self._leader.on_report()

    def close(self, reason: str) -> None:
        if self._transport is not None:
            logger.debug("connection of a replica closed: replica=%s reason=%s", self._replica.name, reason)
            self._transport.abort()

    # --- what it says ---

    def data_received(self, data: bytes) -> None:
        if self._started:  # a stranger that drips has as little time as a silent one
            self._heard_ms = self._leader.clock.monotonic_ms()
        has_more = False
        for number in self._decoder.feed(data):
            if self._started:
                has_more |= self._leader.replicas.reported(self._replica, number)
            elif self._introduction.hear(number) and not self._start(self._introduction):
                return
        if has_more:
            self._leader.on_report()

    def _start(self, said: Introduction) -> bool:
        """False when it is refused."""
        leader, stranger = self._leader, self._replica
        if not leader.admitted(self, stranger.host, said.proof):
            self.close("refused")
            return False
        first = leader.first_position(stranger.host, said.position)
        if first is None:
            self.close("refused")
            return False
        self._started, self._heard_ms = True, leader.clock.monotonic_ms()
        self._replica = leader.replicas.connected(stranger.host, stranger.name)
        self._replica.broker_id, self._replica.is_copy = said.broker_id, said.is_copy
        leader.replicas.begins(self._replica, first)
        facts = self._replica.name, self._replica.broker_id, first
        logger.info("replica follows: replica=%s id=%s from=%d", *facts)
        leader.on_report()
        self.send_more()
        if self._replica.sent == first and self._transport is not None:
            self._transport.write(encode_head(first, 0))  # so that it knows that it was admitted
        return True

    # --- what it gets ---

    def send_more(self) -> None:
        """Slices up to the end of the log, as many as the connection takes and one turn allows."""
        transport, replica, budget = self._transport, self._replica, _TURN_BYTES
        if transport is None or not self._started:
            return
        while not self._paused and replica.sent < self._leader.end and budget > 0:
            try:
                data = self._leader.slice_at(replica.sent)
            except PositionOutOfRangeError as error:
                logger.error("replica too slow, what it needs is deleted: replica=%s reason=%s", replica.name, error)
                self.close("too slow")
                return
            transport.writelines((encode_head(replica.sent, len(data)), data))
            replica.sent += len(data)
            budget -= len(data)
            self._sent_ms = self._leader.clock.monotonic_ms()
        if budget <= 0 and not self._paused and not self._arranged:
            self._arranged = True
            asyncio.get_running_loop().call_soon(self._go_on)
        elif self._finishes and replica.sent >= self._leader.end and transport.can_write_eof():
            self._finishes = False
            transport.write_eof()  # behind all that was sent; the replica closes when it has read it

    def finish(self) -> None:
        """No more comes than what is on disk now: send that, and the end of the stream behind it."""
        if not self._started:
            self.close("the master stops")
            return
        self._finishes = True
        self.send_more()

    def _go_on(self) -> None:
        self._arranged = False
        self.send_more()

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self.send_more()

    def tick(self) -> None:
        now, settings = self._leader.clock.monotonic_ms(), self._leader.settings
        if now - self._heard_ms > (settings.silence_ms_max if self._started else _INTRODUCTION_MS):
            self.close("silent for too long")
        elif self._transport is not None and self._started and now - self._sent_ms >= settings.heartbeat_interval_ms:
            self._sent_ms = now
            if not self._paused:
                self._transport.write(encode_head(self._replica.sent, 0))
