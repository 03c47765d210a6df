"""One peer: frames in, frames out, responses matched to requests. Both sides may send requests, so they share a class.

In: a read is cut into frames, its responses resolve futures, its requests go to the handler in one call: no task and no
await in between. Out: what is sent during one loop iteration leaves in one write. Nothing is kept per message but the
future of a request of ours.

A server stops reading from a peer that does not read its responses; a client goes on reading, for if both stopped,
neither would ever start again.

A connection that was lost is freed by its last reference, not by a garbage collection, which may be far away: nothing
that it holds refers back to it, and errors that are kept lose their tracebacks, whose frames refer to everything.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import threading
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar, cast

from pyromq.clock import Clock
from pyromq.compiled_core import SentFacts
from pyromq.errors import RemoteProtocolError
from pyromq.net.address import Address
from pyromq.net.half_read import HalfReadFrames, unread_bytes
from pyromq.net.handler import Decode, FastPath, Handler
from pyromq.net.idle import IdleWatch
from pyromq.net.pending_calls import PendingCalls
from pyromq.net.pending_requests import NEVER_MS
from pyromq.net.settings import ConnectionSettings
from pyromq.net.stalls import STALL_S, StallWatch
from pyromq.wire.command import Ext, encode_request
from pyromq.wire.frame import PREFIX_BYTES, Frame, FrameDecoder, FrameError, SerializeType
from pyromq.wire.header_errors import HeaderFieldError, UndecodableHeaderError
from pyromq.wire.received import Received, decode_received

logger = logging.getLogger(__name__)

S = TypeVar("S")
E = TypeVar("E", bound=RemoteProtocolError)
Part = bytes | bytearray | memoryview  # views of bytes, one byte an item

READ_BYTES: Final = 256 * 1024
FRAMES_AT_ONCE: Final = 128  # of one read; the next are decoded if the handler has time for them
UNJOINED_BYTES: Final = 8 * 1024  # parts that are larger on average are not worth copying together

_scratch = threading.local()


def _read_buffer() -> memoryview:
    """What a thread's connections read into. One is enough, because a read is copied out before the next begins.

    Against ``data_received`` this costs nothing with small frames and saves a fifth of the CPU at 1 MiB on uvloop; on
    asyncio's own loop it spares an allocation of 256 KiB per read, which can make glibc give back and fault in the same
    memory again and again.
    """
    if not hasattr(_scratch, "view"):
        _scratch.view = memoryview(bytearray(READ_BYTES))
    return cast(memoryview, _scratch.view)


class Connection(asyncio.BufferedProtocol):
    """Made by ``Server`` and ``open_connection``, never by hand."""

    # named, because Python finds the attributes of objects with more than thirty of them in a slower way
    __slots__ = (
        "__weakref__",
        "_body_parts",
        "_buffer",
        "_clock",
        "_close_callbacks",
        "_decode",
        "_decoder",
        "_drained",
        "_fast_path",
        "_half_read",
        "_handler",
        "_is_held",
        "_is_over",
        "_is_reading",
        "_is_server",
        "_loop",
        "_pending_calls",
        "_progress",
        "_progress_ms",
        "_queue",
        "_settings",
        "_stalls",
        "_transport",
        "_undecoded",
        "_watch",
        "bytes_in",
        "bytes_out",
        "close_reason",
        "connected_ms",
        "frames_in",
        "frames_out",
        "half_read_bytes",
        "heard_ms",
        "local",
        "remote",
        "remote_text",
        "session",
    )

    def __init__(
        self,
        handler: Handler,
        clock: Clock,
        settings: ConnectionSettings,
        watch: IdleWatch[Connection],
        remote: Address,
        *,
        is_server: bool,
        half_read: HalfReadFrames | None = None,
        stalls: StallWatch | None = None,
    ) -> None:
        self.remote = remote  # as a proxy reported it, or as we were asked to reach it
        self.remote_text = str(remote)
        self.local = Address("", 0)  # known once connected
        self.connected_ms = 0  # wall clock
        self.session: object = None  # the owner's; set it in Handler.on_connected
        self.bytes_in = 0
        self.heard_ms = 0  # monotonic, of the last read; a server does not note it
        self.bytes_out = 0
        self.frames_in = 0
        self.frames_out = 0
        self.close_reason = ""  # why it was or is being closed; the first reason counts
        self._handler = handler
        self._clock = clock
        self._settings = settings
        self._watch = watch
        self._is_server = is_server
        self._transport: asyncio.Transport | None = None  # None before it is connected and after it is lost
        self._loop = asyncio.get_running_loop()
        self._buffer = _read_buffer()
        self._decoder = FrameDecoder(settings.frame_bytes_max)
        self._fast_path: FastPath | None = None  # of the handler; takes what it can of each read
        self._decode: Decode = decode_received  # the handler may name another
        self.half_read_bytes = 0  # as ``half_read`` has counted them
        self._half_read = half_read  # all connections of a server together; None: they are not counted
        self._stalls = stalls  # likewise
        self._queue: list[Part] = []  # leaves in one write
        self._body_parts = 0  # of the queue: those that do not begin a frame, less the frames inside of others
        self._is_reading = False  # the handler is called with what a read brought; a flush follows
        self._is_held = False  # between hold_reading and go_on_reading
        self._undecoded: list[Frame] = []  # the rest of a read, while held; at most one read more
        self._drained: asyncio.Event | None = None  # there while congested
        self._pending_calls = PendingCalls(
            clock, self.remote_text, settings.in_flight_max, settings.half_open_ms, self._on_half_open
        )
        self._progress = 0  # bytes in and out, as of the last sweep of the idle watch
        self._progress_ms = 0  # monotonic, when that number last changed
        self._is_over = False  # connection_lost was called
        self._close_callbacks: list[Callable[[Connection], None]] = []

    # --- facts -----------------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        return f"<Connection {self.remote_text} {'open' if self.is_open else 'closed'}>"

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    @property
    def is_congested(self) -> bool:
        """More than ``unsent_bytes_high`` waits for the peer to read it."""
        return self._drained is not None

    @property
    def has_unserved(self) -> bool:
        """Whether the peer has sent something that waits for its turn here, or was not even read."""
        return self.is_open and (self._is_held or (self._transport is not None and unread_bytes(self._transport) > 0))

    @property
    def is_encrypted(self) -> bool:
        return self._transport is not None and self._transport.get_extra_info("ssl_object") is not None

    @property
    def peer_name(self) -> str:
        """The common name in the certificate of the peer, which TLS has verified; empty without one."""
        found = self._transport.get_extra_info("peercert") if self._transport else None
        subject = dict(pair for part in (found or {}).get("subject", ()) for pair in part)
        return str(subject.get("commonName", ""))

    @property
    def settings(self) -> ConnectionSettings:
        return self._settings

    @property
    def unheard_ms(self) -> int:
        """When the first request after the last read was sent; in the far future if none was."""
        return self._pending_calls.unheard_ms

    @property
    def in_flight(self) -> int:
        """How many requests of ours wait for a response."""
        return len(self._pending_calls.pending.by_id)

    @property
    def unsent_bytes(self) -> int:
        queued = sum(map(len, self._queue))
        return queued + (self._transport.get_write_buffer_size() if self._transport else 0)

    def session_as(self, session_type: type[S]) -> S:
        """``session``, which must be of that type."""
        assert isinstance(self.session, session_type)
        return self.session

    def quiet_ms(self, now_ms: int) -> int:
        """How long, as far as calls of this method can know, nothing has come and nothing has left."""
        progress = self.bytes_in + self.bytes_out - (self._transport.get_write_buffer_size() if self._transport else 0)
        if progress != self._progress:
            self._progress, self._progress_ms = progress, now_ms
        return now_ms - self._progress_ms

    # --- sending ---------------------------------------------------------------------------------------------------

    def send(self, frame: bytes) -> None:
        """Queues one whole frame; all of one loop iteration leave in one write. Does nothing once closed."""
        if not self._queue and not self._is_reading:
            self._loop.call_soon(self.flush)
        self._queue.append(frame)

    def send_parts(self, head: bytes, parts: Iterable[Part]) -> None:
        """Queues one frame whose body is sent from where it lies; the parts must not change until it has left."""
        self.send(head)
        before = len(self._queue)
        self._queue.extend(parts)
        self._body_parts += len(self._queue) - before

    def queue(self, frames: bytes, count: int = 1) -> bool:
        """``send`` of whole frames in one piece; True when the caller has to ``flush``, because nothing else will."""
        is_first = not self._queue and not self._is_reading
        self._queue.append(frames)
        self._body_parts -= count - 1
        return is_first

    def send_now(self, frames: bytes, count: int = 1) -> None:
        """``queue`` and ``flush``; mostly nothing else is queued, and then there is nothing to join."""
        if self._queue:
            self.queue(frames, count)
            self.flush()
            return
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        self.frames_out += count
        self.bytes_out += len(frames)
        transport.write(frames)
        if self._drained is not None:
            self._check_unsent(transport)

    def flush(self) -> None:
        """Writes what is queued now rather than at the end of this turn."""
        queue, transport = self._queue, self._transport
        if not queue:
            return
        frames = len(queue) - self._body_parts
        self._pending_calls.wall_ms = -1  # a clock that stands still, or is set back, counts within one loop iteration
        self._queue, self._body_parts = [], 0  # first, for writing may call a handler that sends more
        if transport is None or transport.is_closing():
            return
        self.frames_out += frames
        if len(queue) == 1:
            size = len(queue[0])
            transport.write(queue[0])
        else:
            size = sum(map(len, queue))
            if size < UNJOINED_BYTES * len(queue):
                transport.write(b"".join(queue))
            else:
                transport.writelines(queue)
        self.bytes_out += size
        if self._drained is not None:
            self._check_unsent(transport)

    def _check_unsent(self, transport: asyncio.Transport) -> None:
        unsent, bytes_max = transport.get_write_buffer_size(), self._settings.unsent_bytes_max
        if unsent > bytes_max:
            logger.warning(
                "connection cut, peer does not read: peer=%s unsent_bytes=%d bytes_max=%d",
                *(self.remote_text, unsent, bytes_max),
            )
            self.abort(f"peer does not read: {unsent} bytes unsent, at most {bytes_max} are allowed")

    async def drained(self) -> None:
        """Waits until the connection is not congested. Raises ConnectionLostError."""
        while self._drained is not None:
            await self._drained.wait()
        if self._transport is None:
            raise self._pending_calls.lost_error(self.close_reason)

    # --- reading ---------------------------------------------------------------------------------------------------

    def hold_reading(self) -> None:
        """Reads nothing more until ``go_on_reading``: the handler has not finished with what it got."""
        self._is_held = True
        if self.is_open and self._transport is not None:
            self._transport.pause_reading()

    def go_on_reading(self) -> None:
        """Ends ``hold_reading``; a peer that does not read its responses is still not read from."""
        self._is_held = False
        if self._undecoded:
            self._receive_more()
        if self._is_held:
            return
        if self.is_open and self._transport is not None and not (self._is_server and self.is_congested):
            self._transport.resume_reading()

    # --- requests --------------------------------------------------------------------------------------------------

    async def request(self, code: int, header: Ext = None, body: bytes = b"", *, timeout_ms: int) -> Received[Any]:
        """The response, whatever its code. Waits first while the connection is congested.

        Raises RequestTimeoutError, ConnectionLostError, TooManyRequestsError, LocalProtocolError.
        """
        if self._drained is not None:
            started_ms = self._clock.monotonic_ms()
            try:
                async with asyncio.timeout(timeout_ms / 1000):
                    await self.drained()
            except TimeoutError as error:
                raise self._pending_calls.timeout_error(code, timeout_ms) from error
            timeout_ms -= self._clock.monotonic_ms() - started_ms
        return await self.request_nowait(code, header, body, timeout_ms=timeout_ms)

    def request_nowait(
        self, code: int, header: Ext = None, body: bytes = b"", *, timeout_ms: int
    ) -> asyncio.Future[Received[Any]]:
        """A future of the response, or of what ``request`` raises.

        Raises ConnectionLostError, TooManyRequestsError, LocalProtocolError at once.
        """
        number = self._send_request(code, header, body, oneway=False)
        return self._pending_calls.expect(number, code, timeout_ms)

    def begin_request(self, wall_ms: int = -1) -> int:
        """The id of a request whose frame the caller makes and gives to ``send_request``; the connection must be open.

        ``wall_ms`` is now, by the wall clock: the monotonic one is not read again within its milliseconds. Raises
        TooManyRequestsError.
        """
        pending_calls = self._pending_calls
        if wall_ms != pending_calls.wall_ms or wall_ms < 0:
            pending_calls.read_clock(wall_ms)
        return pending_calls.next_id()

    @property
    def begun_ms(self) -> int:
        """When the last request began: monotonic, at most a millisecond old then."""
        return self._pending_calls.now_ms

    def send_request(
        self, number: int, frame: bytes, code: int, timeout_ms: int, *, takes_facts: bool = False
    ) -> asyncio.Future[Any]:
        """Send an encoded frame whose correlation id is ``number`` and return the future of its response.

        With ``takes_facts`` the future of a send may have SentFacts in place of a response: the compiled core read it.
        """
        queue = self._queue
        if not queue and not self._is_reading:
            self._loop.call_soon(self.flush)
        queue.append(frame)
        return self._pending_calls.expect(number, code, timeout_ms, takes_facts)

    def request_oneway(self, code: int, header: Ext = None, body: bytes = b"") -> None:
        """No response comes. Raises ConnectionLostError, LocalProtocolError."""
        self._send_request(code, header, body, oneway=True)

    def _send_request(self, code: int, header: Ext, body: bytes, *, oneway: bool) -> int:
        transport = self._transport
        if transport is None or transport.is_closing():
            raise self._pending_calls.lost_error(self.close_reason)
        self._pending_calls.read_clock(-1)
        number = self._pending_calls.next_id(oneway=oneway)
        serialize_type = self._settings.serialize_type
        self.send(encode_request(code, number, header, body=body, oneway=oneway, serialize_type=serialize_type))
        return number

    def fail_late_requests(self) -> None:
        """Ends the wait for responses that are overdue; a timer calls it too."""
        self._pending_calls.fail_late()

    def _on_half_open(self, silence_ms: int) -> None:
        logger.warning("connection dropped, half open: peer=%s silence_ms=%d", self.remote_text, silence_ms)
        self.abort(f"half open: nothing heard for {silence_ms} ms")

    # --- the end ---------------------------------------------------------------------------------------------------

    def close(self, reason: str = "closed by this side") -> None:
        """Sends what is queued, then closes."""
        self.flush()
        if self._transport is not None and not self._transport.is_closing():
            self.close_reason = reason
            self._transport.close()

    def abort(self, reason: str) -> None:
        """Drops the connection with all that is unsent."""
        if self._transport is not None:
            self.close_reason = self.close_reason or reason
            self._transport.abort()

    async def wait_closed(self) -> None:
        closed = asyncio.Event()
        self.call_when_closed(lambda _: closed.set())
        await closed.wait()

    def call_when_closed(self, callback: Callable[[Connection], None]) -> None:
        """``callback(connection)`` after ``Handler.on_disconnected``; it must not raise."""
        if self._is_over:
            callback(self)
        else:
            self._close_callbacks.append(callback)

    def forget_half_read(self) -> None:
        """Frees what has come of a frame that will never be complete, because the connection ends."""
        if self._half_read is not None:
            self._half_read.note(self, 0)
        self._decoder = FrameDecoder(self._settings.frame_bytes_max)

    def _break(self, error: RemoteProtocolError) -> None:
        if self.is_open:
            text = str(error)  # a log record with the error itself would hold this connection
            logger.warning("connection closed, peer broke the protocol: peer=%s error=%s", self.remote_text, text)
            self.close(f"protocol error: {text}")

    # --- called by the event loop ----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport = cast(asyncio.Transport, transport)
        transport.set_write_buffer_limits(high=self._settings.unsent_bytes_high)
        with contextlib.suppress(OSError):  # the peer may have gone already
            transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.local = Address(*(transport.get_extra_info("sockname") or self.local)[:2])
        self.connected_ms = self._clock.now_ms()
        self._progress_ms = self._clock.monotonic_ms()
        logger.debug("connected: peer=%s local=%s", self.remote_text, self.local)
        self._watch.add(self)
        self._call(self._handler.on_connected, self)
        if self.is_open:
            self._call(self.ask_handler)

    def ask_handler(self) -> None:
        """How it reads: once it is connected, and again when the handler has changed its ways."""
        self._fast_path = self._handler.fast_path(self)
        self._decode = self._handler.decoder(self)

    @property
    def has_fast_path(self) -> bool:
        return self._fast_path is not None

    def use_fast_path(self, fast_path: FastPath | None) -> None:
        """From the next read on: the handler knows by now what this peer sends."""
        self._fast_path = fast_path

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.bytes_in += nbytes
        self._pending_calls.unheard_ms = NEVER_MS
        if not self._is_server:
            self.heard_ms = self._clock.monotonic_ms()
        decoder = self._decoder
        data: Part = self._buffer[:nbytes]
        if self._fast_path is not None:
            chunk = decoder.gather(data) if decoder.half_read else data
            data = self._take_fast(self._fast_path, chunk) if chunk is not None else b""
            if not data and not self.half_read_bytes and not decoder.half_read:
                return
        try:
            frames = decoder.feed(data)
        except FrameError as error:
            self._receive(error.whole_frames)
            self._break(error)
        else:
            if frames:
                if self._stalls is None:
                    self._receive(frames)
                else:
                    self._receive_timed(frames, self._stalls)
            half_read = len(decoder.half_read)
            if half_read != self.half_read_bytes and self._half_read is not None:
                self._half_read.note(self, half_read)

    def _take_fast(self, fast_path: FastPath, chunk: Part) -> Part:
        """What the fast path leaves of a read, and of what came before it.

        It is not timed by itself: a read is worth some microseconds to it, so two looks at the clock would be a part of
        that. Should it ever keep the loop, the loop's probe says so.
        """
        self._is_reading = True
        try:
            taken = fast_path(self, chunk)
        except Exception:  # likewise a defect of the handler
            self._is_reading = False
            self._fail()
            return b""
        self._is_reading = False
        if self._queue:
            self.flush()
        if taken == len(chunk):
            return b""
        return memoryview(chunk)[taken:] if taken else chunk

    def _receive_timed(self, frames: list[Frame], stalls: StallWatch) -> None:
        began_s = stalls.wall_s()  # ``begin``, without the call
        if began_s >= stalls.next_mark_s:
            stalls.mark(began_s)
        self._receive(frames)
        if stalls.wall_s() - began_s > STALL_S:
            stalls.ended_late(began_s, _codes(frames))

    def _receive(self, frames: list[Frame]) -> None:
        self.frames_in += len(frames)
        if len(frames) <= FRAMES_AT_ONCE and not self._is_held:
            self._decode_some(frames)
        else:
            self._undecoded += frames
            self._receive_more()

    def _receive_more(self) -> None:
        """Hand over what is left of a read, piece by piece, for as long as the handler wants more."""
        undecoded = self._undecoded
        while undecoded and not self._is_held:
            piece = undecoded[:FRAMES_AT_ONCE]
            del undecoded[:FRAMES_AT_ONCE]
            self._decode_some(piece)

    def _decode_some(self, frames: list[Frame]) -> None:
        answered, decode = self._pending_calls.answered, self._decode
        requests: list[Received[Any]] = []
        bad_headers: list[HeaderFieldError] = []
        broken: UndecodableHeaderError | None = None
        for frame in frames:
            try:
                received = decode(frame)
            except HeaderFieldError as bad:
                bad_headers.append(_without_frames(bad))
            except UndecodableHeaderError as undecodable:
                broken = _without_frames(undecodable)
                break
            else:
                if received.flag & 1:
                    answered(received)
                else:
                    requests.append(received)
        if requests or bad_headers:
            self._is_reading = True
            try:  # as ``_call`` does it, without the calls: this is once for every read
                if requests:
                    self._handler.on_requests(self, requests)
                if bad_headers:
                    for error in bad_headers:
                        self._handler.on_bad_header(self, error)
            except Exception:  # a defect of the handler must not break the protocol's callbacks
                self._fail()
            self._is_reading = False
            if self._queue:
                self.flush()
        if broken is not None:
            self._undecoded.clear()
            self._break(broken)

    def answered(self, found: list[tuple[int, int, SentFacts]], data: Part) -> None:
        """Responses to sends that stand at the beginning of ``data``: id, end and what was read of each."""
        self.frames_in += len(found)
        for start, end in self._pending_calls.answered_by(found):
            header = bytes(data[start + PREFIX_BYTES : end])
            self._pending_calls.answered(decode_received(Frame(SerializeType.JSON, header)))

    def pause_writing(self) -> None:
        self._drained = asyncio.Event()
        if self._is_server and self.is_open and self._transport is not None:
            self._transport.pause_reading()
        logger.debug("congested: peer=%s", self.remote_text)
        self._call(self._handler.on_congested, self)

    def resume_writing(self) -> None:
        self._uncongest()
        if self._is_server and not self._is_held and self.is_open and self._transport is not None:
            self._transport.resume_reading()
        self._call(self._handler.on_drained, self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.close_reason = self.close_reason or (f"{exc}" if exc else "closed by the peer")
        self._transport, self._is_over = None, True
        self._queue.clear()
        self._undecoded.clear()
        self.forget_half_read()
        self._uncongest()
        logger.debug("disconnected: peer=%s reason=%s", self.remote_text, self.close_reason)
        self._pending_calls.fail_all(self.close_reason)
        self._call(self._handler.on_disconnected, self, self.close_reason)
        for callback in self._close_callbacks:
            callback(self)
        self._close_callbacks.clear()

    def _uncongest(self) -> None:
        if self._drained is not None:
            self._drained.set()
            self._drained = None

    def _call(self, method: Callable[..., None], *arguments: object) -> None:
        """A handler's mistake ends its connection and nothing else."""
        try:
            method(*arguments)
        except Exception:  # a defect of the handler must not break the protocol's callbacks
            self._fail()

    def _fail(self) -> None:
        logger.exception("handler failed, connection closed: peer=%s", self.remote_text)
        self.abort("the handler failed")


def _without_frames(error: E) -> E:
    """The error alone: tracebacks, its own and those of what caused it, refer to the frame that keeps it."""
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)


def _codes(frames: list[Frame]) -> list[int]:
    """Which requests a read brought, for the log; frames that cannot be decoded are left out."""
    codes: dict[int, None] = {}
    for frame in frames:
        with contextlib.suppress(RemoteProtocolError):
            codes[decode_received(frame).code] = None
    return list(codes)
