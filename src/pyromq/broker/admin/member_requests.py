"""What a failover agent asks and tells the broker beside it, and replicas their master.

A grant is a moment of the clock of one machine, so a broker takes it only from its own machine. The other actions are
the agent's, too: who wants another master writes so into the lease (``pyromq cluster switch``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from ipaddress import ip_address
from typing import Any, Final, TypeVar

import msgspec

from pyromq.broker.base.lease import Lease
from pyromq.broker.base.refusals import RefusedError, too_large
from pyromq.broker.base.responses import BODY_BYTES_MAX, send_response
from pyromq.net.connection import Connection
from pyromq.wire.codes import ResponseCode
from pyromq.wire.json.membership import BrokerStatus, Control, MemberAction, MemberReport
from pyromq.wire.received import Received

T = TypeVar("T")
_NOTE_CHARS_MAX: Final = 1_000
HOLD_MS_MAX: Final = 2_000  # replicas that say nothing for five seconds do not count


class MemberHandler:
    """Requests 31020, 31021, 31022, 31023. What changes the role is the broker's, which sets the callbacks."""

    def __init__(self, lease: Lease | None) -> None:
        self._lease = lease
        self._on_report: Callable[[MemberReport, str], None] | None = None  # of a master
        self._status: Callable[[], BrokerStatus]
        self.complete: Callable[[BrokerStatus], BrokerStatus] = lambda status: status  # by what the broker alone knows
        self.on_control: Callable[[Control], None] = lambda control: None
        self.on_grant: Callable[[], None] = lambda: None
        self._held: dict[Connection, tuple[Received[None], asyncio.TimerHandle]] = {}  # reports; see ``tables_changed``

    def take(self, status: Callable[[], BrokerStatus], on_report: Callable[[MemberReport, str], None] | None) -> None:
        """What is built after the handlers."""
        self._status, self._on_report = status, on_report

    def status(self) -> BrokerStatus:
        return self.complete(self._status())

    def query(self, connection: Connection, request: Received[None]) -> bytes:
        return msgspec.json.encode(self.status())

    def grant(self, connection: Connection, request: Received[None]) -> None:
        control, lease = decoded(request, Control), self._checked(connection)
        if not lease.grant(control.number, control.until_s, control.required, control.renewals):
            state = lease.state
            raise _refused(f"the broker is {state.role or 'new'} under lease {state.number}, not master under another")
        lease.away = control.away
        self.on_grant()

    def control(self, connection: Connection, request: Received[None]) -> None:
        control, lease = decoded(request, Control), self._checked(connection)
        if control.action is MemberAction.GRANT:
            raise _refused("a grant has a request of its own")
        if control.number < lease.state.number and control.action in (MemberAction.PROMOTE, MemberAction.FOLLOW):
            raise _refused(f"the broker has seen lease {lease.state.number}, this one is {control.number}")
        if control.action is MemberAction.NOTE:
            lease.note(control.waiting[:_NOTE_CHARS_MAX], control.members, control.newest)
            return
        self.on_control(control)

    def _checked(self, connection: Connection) -> Lease:
        if self._lease is None:
            raise _refused("this broker is not under a failover agent: start it with --failover")
        if not _is_same_machine(connection):
            raise _refused(
                "a broker obeys the failover agent on its own machine; for a planned change use pyromq cluster switch"
            )
        return self._lease

    def report(self, connection: Connection, request: Received[None]) -> None:
        report, on_report, lease = decoded(request, MemberReport), self._on_report, self._lease
        if on_report is None or lease is None:
            raise _refused("this broker is not a master under a failover agent")
        if report.number != lease.state.number:
            raise _refused(f"this broker is master under lease {lease.state.number}, the replica follows another")
        on_report(report, connection.remote.host)
        status = self.status()
        hold_ms = min(report.hold_ms, HOLD_MS_MAX)
        if hold_ms > 0 and status.metadata <= report.metadata:
            self._answer(connection)  # an older one
            timer = asyncio.get_running_loop().call_later(hold_ms / 1_000, self._answer, connection)
            self._held[connection] = request, timer
        else:
            send_response(connection, request, msgspec.json.encode(status))

    def tables_changed(self) -> None:
        """Answer the reports that wait: their replicas fetch the tables, and somebody waits for that."""
        for connection in list(self._held):
            self._answer(connection)

    def drop_held(self) -> None:
        """This broker is about to be something else: replicas notice that by themselves."""
        for _, timer in self._held.values():
            timer.cancel()
        self._held.clear()

    def _answer(self, connection: Connection) -> None:
        held = self._held.pop(connection, None)
        if held is not None:
            request, timer = held
            timer.cancel()
            if connection.is_open:
                send_response(connection, request, msgspec.json.encode(self.status()))


def decoded(request: Received[Any], kind: type[T]) -> T:
    """Read the body of a request of members. Raises RefusedError."""
    if len(request.body) > BODY_BYTES_MAX:
        raise too_large(request)
    try:
        return msgspec.json.decode(request.body, type=kind)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise RefusedError(ResponseCode.INVALID_PARAMETER, f"the body cannot be read: {error}") from error


def _refused(text: str) -> RefusedError:
    return RefusedError(ResponseCode.NO_PERMISSION, text)


def _is_same_machine(connection: Connection) -> bool:
    """Both ends of the connection have one address."""
    host = connection.remote.host
    try:
        return host == connection.local.host or ip_address(host).is_loopback
    except ValueError:
        return False
