"""The dispatcher: brings requests to their handlers in fair turns, and answers what goes wrong.

    connection ─▶ turns ─▶ access control ─▶ plan ─▶ handler ─▶ response: now, in steps, after a registration, or later

It lives as long as the broker. While the broker has no role (its store is closed) requests wait in their order.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Container, Coroutine, Generator, Iterator
from ipaddress import ip_address
from typing import Any, Final, Protocol

from pyromq.broker.base.access import Access, GuardedAccess
from pyromq.broker.base.long_responses import LongResponses, Steps
from pyromq.broker.base.refusals import RefusedError, refusal_of, too_large
from pyromq.broker.base.request_times import RequestTimes
from pyromq.broker.base.responses import BODY_BYTES_MAX, Response, send_failure, send_refusal, send_response
from pyromq.broker.base.session import Session
from pyromq.broker.dispatching.caller import Caller, OnRequest
from pyromq.broker.dispatching.layers import BETWEEN_ROLES, STOPPING
from pyromq.broker.dispatching.plan import (
    ANSWERED_AFTER_REGISTRATION,
    ANSWERED_AFTER_REPLICATION,
    NOTHING,
    UNDELAYED,
    Lanes,
    RequestPlan,
)
from pyromq.clock import Clock
from pyromq.compiled_core import core
from pyromq.errors import MQError
from pyromq.net import Address, Connection, Handler
from pyromq.net.handler import Decode, FastPath
from pyromq.net.turns import FEW, TURN_S, Turns
from pyromq.security.identity import Peer
from pyromq.wire.codes import ResponseCode
from pyromq.wire.fast.signed_requests import decode_signed
from pyromq.wire.header_errors import HeaderFieldError
from pyromq.wire.message_id import Host
from pyromq.wire.received import Received, decode_received

logger = logging.getLogger(__name__)

_UNHEARD_OF: Final = (
    "the change was made, but this broker stopped, or stopped being master, before others had heard of it: look "
    "whether it is there, and repeat it if not"
)


class Service(Protocol):
    """What the dispatcher needs of the parts of one role."""

    @property
    def access(self) -> Access: ...

    @property
    def times(self) -> RequestTimes: ...

    @property
    def long_responses(self) -> LongResponses: ...

    @property
    def commit_early(self) -> Callable[[], None]:
        """To be called when all requests of one turn are staged."""

    def connected(self, connection: Connection) -> None: ...

    def disconnected(self, connection: Connection) -> None: ...

    def fast_path(self, connection: Connection) -> FastPath | None: ...

    def renew_lanes(self, lanes: Lanes, waiting: Container[Connection]) -> None:
        """Open or close them, and let them forget what they know; nothing may overtake what ``waiting`` has."""

    def announced(self) -> Coroutine[Any, Any, None] | None:
        """Ends when everybody knows of a change of topics who has to; None: there is nobody to notify."""

    def replicated(self) -> Coroutine[Any, Any, None] | None:
        """Ends when replicas that the lease names have the topics and groups of now; None: there is no lease."""


class RequestDispatcher(Handler):
    """Serves connections and callers by the plan that it follows."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.turns = Turns(self._serve, clock.monotonic_s, UNDELAYED)
        self._service: Service | None = None  # None while the broker has no role
        self._early: dict[Connection, list[Received[Any]]] = {}  # connected, and asked, in the meantime
        self._callers: set[Caller] = set()
        self._announcing: set[asyncio.Task[None]] = set()  # responses that wait until name servers are notified
        # of the service and the plan, for every request
        self._guarded: GuardedAccess | None = None
        self._times = RequestTimes()
        self._commit_early: Callable[[], None] = lambda: None
        self._plan = NOTHING

    # --- the life of a role ---

    def serve(self, service: Service, plan: RequestPlan) -> None:
        """Answer requests from now on; those that came earlier first, once ``welcome`` is called."""
        self._service, self._times, self._commit_early = service, service.times, service.commit_early
        self._guarded = service.access if isinstance(service.access, GuardedAccess) else None
        self.follow(plan)

    def follow(self, plan: RequestPlan) -> None:
        """Settings, the role or a gate have changed what answers requests."""
        assert self._service is not None, "there is no role"
        self._plan = plan
        self._service.renew_lanes(plan.lanes, self.turns.waiting)

    def welcome(self) -> None:
        """Serve those who connected while the broker had no role."""
        assert self._service is not None, "there is no role"
        waiting, self._early = self._early, {}
        for connection, requests in waiting.items():
            if connection.is_open:
                self._service.connected(connection)
                connection.ask_handler()
                if requests:
                    self.turns.take(connection, requests)
                if connection not in self.turns.waiting:  # else after these: what is read next came behind them
                    connection.go_on_reading()

    def refuse_late(self) -> None:
        """Refuse what would be answered later: the role ends."""
        self.follow(self._plan.behind(STOPPING))

    async def finish(self) -> None:
        """End what waits for name servers, and responses that are being made."""
        tasks = list(self._announcing)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def suspend(self) -> None:
        """The role has ended: what comes now waits for the next one, and callers have to come again."""
        self._plan, self._service = self._plan.behind(BETWEEN_ROLES), None
        for caller in list(self._callers):
            caller.close("the broker changes its role")

    # --- front doors ---

    def new_caller(self, remote: Address, session: Session, on_request: OnRequest = lambda request: None) -> Caller:
        """A client that reached the broker by another protocol; ask with its ``call``, end it with ``close``."""
        return Caller(self, self._clock, remote, session, on_request)

    def on_connected(self, connection: Connection) -> None:
        if isinstance(connection, Caller):
            self._callers.add(connection)
        else:
            connection.session = new_session(connection.remote, connection.peer_name)
        if self._service is not None:
            self._service.connected(connection)
        else:
            self._early[connection] = []

    def fast_path(self, connection: Connection) -> FastPath | None:
        if core is None or self._service is None:  # without the core a connection gets one with its first pull
            return None
        return self._service.fast_path(connection)

    def decoder(self, connection: Connection) -> Decode:
        is_signed = self._guarded is not None and self._guarded.guard.is_by_signature
        return decode_signed if is_signed and core is None else decode_received  # the core reads fields by itself

    def on_requests(self, connection: Connection, requests: list[Received[Any]]) -> None:
        if self._service is None:
            self._early.setdefault(connection, []).extend(requests)
            connection.hold_reading()
        else:
            self.turns.take(connection, requests)

    def on_bad_header(self, connection: Connection, error: HeaderFieldError) -> None:
        request = error.received
        if self._guarded is not None and request is not None:
            try:
                self._guarded.principal_of(connection, request)
            except MQError as refusal:  # strangers are not shown what a request should look like
                send_refusal(connection, request, *refusal_of(refusal))
                self.turns.spent(connection)
                return
        super().on_bad_header(connection, error)
        self.turns.spent(connection)

    def on_drained(self, connection: Connection) -> None:
        self.turns.go_on(connection)

    def on_disconnected(self, connection: Connection, reason: str) -> None:
        self.turns.drop(connection)
        self._early.pop(connection, None)
        self._callers.discard(connection)
        if self._service is not None:
            self._service.disconnected(connection)

    # --- one turn of a connection ---

    def _serve(self, connection: Connection, coming: Iterator[Received[Any]]) -> bool:
        """Serve a few sends, which share their commit, and of the rest what fits; True when something may be left."""
        if self._guarded is not None:
            coming = _admitted(self._guarded, connection, coming, self._times)
        quick, until_s, times, left = self._plan.quick, 0.0, self._times, FEW
        for request in coming:
            handle = quick.get(request.code)
            try:
                if handle is not None:
                    left -= 1
                    handle(connection, request)
                    if left:
                        continue
                else:
                    if not until_s:
                        is_pull = request.code in UNDELAYED
                        times.began_s = now_s = self._clock.monotonic_s()
                        until_s = now_s + TURN_S if is_pull else self.turns.until_s()
                    self._handle(connection, request)
            except RefusedError as error:
                times.refuse(request, error.code)
                send_refusal(connection, request, error.code, error.remark, error.ext)
            except MQError as error:
                code, remark = refusal_of(error)
                times.refuse(request, code)
                send_refusal(connection, request, code, remark)
            except Exception as error:  # a defect of ours must not take the connection, or other requests, with it
                times.refuse(request, ResponseCode.SYSTEM_ERROR)
                logger.exception("request failed: code=%d peer=%s", request.code, connection.remote_text)
                send_failure(connection, request, error)
            if not left:
                left, until_s = FEW, self.turns.until_s()
            if until_s:
                now_s = self._clock.monotonic_s()
                if handle is None:
                    times.done(request.code, now_s)
                if now_s >= until_s:
                    self._commit_early()
                    return True
        self._commit_early()
        return False

    def _handle(self, connection: Connection, request: Received[Any]) -> None:
        if handle := self._plan.deferred.get(request.code):
            handle(connection, request)
        elif response := self._plan.immediate.get(request.code):
            if len(request.body) > BODY_BYTES_MAX:
                raise too_large(request)
            self._respond(connection, request, response(connection, request))
        else:
            text = f" request type {request.code} not supported"
            self._times.refuse(request, ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
            send_refusal(connection, request, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, text)

    # --- responses ---

    def _respond(self, connection: Connection, request: Received[Any], response: Response | Steps) -> None:
        if not isinstance(response, Generator):
            self.respond(connection, request, response)
        elif self._service is not None:
            self._service.long_responses.begin(connection, request, response)

    def respond(self, connection: Connection, request: Received[Any], response: Response) -> None:
        """Send what a handler returned, when everybody knows of it who has to."""
        announced = None
        if request.code in ANSWERED_AFTER_REGISTRATION and self._service is not None:
            announced = self._service.announced()
        elif request.code in ANSWERED_AFTER_REPLICATION and self._service is not None:
            announced = self._service.replicated()
        if announced is None:
            send_response(connection, request, response)
            return
        task = asyncio.get_running_loop().create_task(announced, name="tell name servers or replicas")
        self._announcing.add(task)
        task.add_done_callback(self._announcing.discard)
        task.add_done_callback(lambda done: self._send_announced(connection, request, response, done))

    def _send_announced(
        self, connection: Connection, request: Received[Any], response: Response, done: asyncio.Task[None]
    ) -> None:
        """Refuse if the role ended before everybody knew of the change: the next master may lack it."""
        if not done.cancelled():
            send_response(connection, request, response)
            return
        self._times.refuse(request, ResponseCode.SYSTEM_ERROR)
        send_refusal(connection, request, ResponseCode.SYSTEM_ERROR, _UNHEARD_OF)


def new_session(remote: Address, peer_name: str = "") -> Session:
    """What the broker keeps of a client at this address, whom nobody has verified yet."""
    host = Host(ip_address(remote.host).packed, remote.port).encode()
    return Session(host, Peer(remote.host, peer_name))


def _admitted(
    access: GuardedAccess, connection: Connection, coming: Iterator[Received[Any]], times: RequestTimes
) -> Iterator[Received[Any]]:
    """The requests whose senders may; the others are refused when their turn comes."""
    for request in coming:
        try:
            access.admit(connection, request)
        except MQError as error:
            code, remark = refusal_of(error)
            times.refuse(request, code, known=False)
            send_refusal(connection, request, code, remark)
        except Exception as error:  # a defect of ours, or of a plug-in, lets nobody in
            times.refuse(request, ResponseCode.SYSTEM_ERROR, known=False)
            logger.exception("request not verified: code=%d peer=%s", request.code, connection.remote_text)
            send_failure(connection, request, error)
        else:
            yield request
