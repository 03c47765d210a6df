"""Callers: clients of another protocol, in the form in which handlers know clients.

A handler answers to a connection, at once or later, and may keep it: as a member of a group, as somebody to ask about a
transaction. A caller is such a connection without a socket. What handlers send to it becomes the result of the call
that it answers; what the broker asks of the client goes to ``on_request``, for whoever speaks the client's protocol.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from pyromq.broker.base.session import Session
from pyromq.clock import Clock
from pyromq.errors import ConnectionLostError, TooManyRequestsError
from pyromq.net.address import Address
from pyromq.net.connection import Connection
from pyromq.net.handler import Handler
from pyromq.net.idle import IdleWatch
from pyromq.net.settings import DEFAULT_SETTINGS
from pyromq.wire.codes import VERSION
from pyromq.wire.frame import FrameDecoder
from pyromq.wire.received import CommandFlag, Received, decode_received

logger = logging.getLogger(__name__)

OnRequest = Callable[[Received[Any]], None]
"""Takes a request of the broker's, such as the check of a transaction."""

OnAnswer = Callable[[Received[Any] | ConnectionLostError], None]
"""Takes the response, or why there will be none."""

_NUMBERS: Final = 1 << 31  # correlation ids have 32 bits, and a sign


class Caller(Connection):
    """Stands for one client of another front door, from its making until ``close``; made on the loop.

    ``language`` and ``version`` are what its requests say of the client.
    """

    __slots__ = ("_asked", "_calls", "_frames", "_number", "language", "on_request", "version")

    def __init__(
        self,
        handler: Handler,
        clock: Clock,
        remote: Address,
        session: Session,
        on_request: OnRequest = lambda request: None,
    ) -> None:
        """``session`` has the address of the client, and the user if it is verified already."""
        super().__init__(handler, clock, DEFAULT_SETTINGS, IdleWatch(clock, 0), remote, is_server=True)
        self.session = session
        self.connected_ms = clock.now_ms()
        self.on_request = on_request
        self._calls: dict[int, OnAnswer] = {}
        self._asked: list[Received[Any]] = []  # in this loop iteration
        self._frames = FrameDecoder()
        self._number = 0
        self.language = ""
        self.version = VERSION
        self._transport = _NoSocket(self)
        handler.on_connected(self)

    @property
    def calls(self) -> int:
        """How many calls wait for their response."""
        return len(self._calls)

    def call(self, code: int, header: object = None, body: bytes = b"") -> asyncio.Future[Received[Any]]:
        """Have a request answered; the response comes whatever its code is, and may come much later.

        ``header`` is the typed header that the handler wants. Raises ConnectionLostError, TooManyRequestsError.
        """
        future: asyncio.Future[Received[Any]] = self._loop.create_future()
        number = self.ask(code, header, body, partial(_settle, future))
        future.add_done_callback(lambda _: self._calls.pop(number, None))  # also of one that was cancelled
        return future

    def ask(self, code: int, header: object, body: bytes, on_answer: OnAnswer) -> int:
        """``call`` by callback; returns the number of the call. What is asked in one loop iteration is served together.

        Raises ConnectionLostError, TooManyRequestsError.
        """
        if not self.is_open:
            raise self._lost()
        if len(self._calls) >= self._settings.in_flight_max:
            raise TooManyRequestsError(peer=self.remote_text, in_flight_max=self._settings.in_flight_max)
        self._number = number = (self._number + 1) % _NUMBERS
        self._calls[number] = on_answer
        request = Received(
            code=code,
            header=header,
            correlation_id=number,
            version=self.version,
            raw_language=self.language,
            body=body,
        )
        if not self._asked:
            self._loop.call_soon(self.hand_over)
        self._asked.append(request)
        return number

    def hand_over(self) -> None:
        """Have everything served that was asked; the next loop iteration does so by itself."""
        asked, self._asked = self._asked, []
        if asked and self.is_open:
            self.frames_in += len(asked)
            self._handler.on_requests(self, asked)
            self.flush()

    def answer(self, request: Received[Any], body: bytes = b"", *, code: int = 0, remark: str | None = None) -> None:
        """The client's response to what ``on_request`` got."""
        self._pending_calls.answered(
            Received(
                code=code,
                header={},
                correlation_id=request.correlation_id,
                flag=CommandFlag.RESPONSE,
                remark=remark,
                body=body,
            )
        )

    def written(self, data: bytes) -> None:
        """Note that handlers have sent this response."""
        for frame in self._frames.feed(data):
            received = decode_received(frame)
            if not received.is_response:
                self._ask(received)
            elif (on_answer := self._calls.pop(received.correlation_id, None)) is not None:
                self._tell(on_answer, received)

    def take_result(self, request: Received[Any], result: object) -> bool:
        """Pass a response on as the value that it is, which nobody has to encode; False when nobody waits for it."""
        on_answer = self._calls.pop(request.correlation_id, None)
        if on_answer is None:
            return False
        self.frames_out += 1
        number = request.correlation_id
        self._tell(on_answer, Received(code=0, header=result, correlation_id=number, flag=CommandFlag.RESPONSE))
        return True

    def _tell(self, on_answer: OnAnswer, answer: Received[Any] | ConnectionLostError) -> None:
        try:
            on_answer(answer)
        except Exception:  # a defect of another protocol must not reach the handler that answers
            logger.exception("response not passed on: peer=%s", self.remote_text)

    def _ask(self, request: Received[Any]) -> None:
        try:
            self.on_request(request)
        except Exception:  # a defect of another protocol must not reach the handler that asks
            logger.exception("request not passed on: code=%d peer=%s", request.code, self.remote_text)

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        calls, self._calls = self._calls, {}
        for on_answer in calls.values():
            self._tell(on_answer, self._lost())

    def _lost(self) -> ConnectionLostError:
        return self._pending_calls.lost_error(self.close_reason)


def _settle(future: asyncio.Future[Received[Any]], answer: Received[Any] | ConnectionLostError) -> None:
    if future.done():
        return
    if isinstance(answer, ConnectionLostError):
        future.set_exception(answer)
    else:
        future.set_result(answer)


class _NoSocket(asyncio.Transport):
    """Gives everything that is written back to the caller."""

    def __init__(self, caller: Caller) -> None:
        super().__init__()
        self._caller: Caller | None = caller

    def is_closing(self) -> bool:
        return self._caller is None

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._caller is not None:
            self._caller.written(bytes(data))

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        """Nothing is read."""

    def resume_reading(self) -> None:
        """Nothing is read."""

    def close(self) -> None:
        if (caller := self._caller) is not None:
            self._caller = None
            asyncio.get_running_loop().call_soon(caller.connection_lost, None)

    def abort(self) -> None:
        self.close()
