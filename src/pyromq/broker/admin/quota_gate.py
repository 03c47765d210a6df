"""Quotas before the handlers: who has used up what it may take has to come back later.

    send                  SYSTEM_BUSY [FLOW_CONTROL]…   producers pause, or try another broker
    pull                  FLOW_CONTROL                  consumers pause for 20 ms; reads are charged when they leave
    connection            closed, or, when a heartbeat says whose it is, the heartbeat is refused and then it is closed
    new topic or group    INVALID_PARAMETER             waiting would not help

Quotas are layers in front of handlers, made when the broker starts and when its quotas change; where no quota is in
question there is none. A message that a consumer gives back is charged and never refused: it would come again at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Collection, Generator
from functools import partial
from typing import Any, Final

from pyromq.broker.base.access import GuardedAccess
from pyromq.broker.base.environment import Environment
from pyromq.broker.base.long_responses import Steps
from pyromq.broker.base.refusals import RefusedError
from pyromq.broker.base.responses import Deferred, Immediate, Response
from pyromq.broker.base.session import Session
from pyromq.broker.base.stats import Counters
from pyromq.broker.commit.send_gate import SendGate
from pyromq.broker.dispatching.layers import Layer, layer
from pyromq.broker.pulling.pull import PullHandler
from pyromq.broker.state.tables import Tables
from pyromq.model.names import DEAD_LETTER_PREFIX, RETRY_PREFIX
from pyromq.net.connection import Connection
from pyromq.security.errors import AccessDeniedError
from pyromq.security.identity import Principal
from pyromq.security.quotas import Account, Direction, Limit, Measure, Meter, QuotaRules, QuotaScope, parse_quotas
from pyromq.store.read_result import ReadResult
from pyromq.store.tables.owners import OwnerTable
from pyromq.wire.batch import count_items
from pyromq.wire.codes import FLOW_CONTROL_TAG, ResponseCode
from pyromq.wire.codes import RequestCode as Code
from pyromq.wire.headers.consumer import PullHeader
from pyromq.wire.headers.producer import SendHeader
from pyromq.wire.received import Received

logger = logging.getLogger(__name__)

SENDS: Final = frozenset(
    (
        Code.SEND_MESSAGE,
        Code.SEND_MESSAGE_V2,
        Code.SEND_BATCH_MESSAGE,
        Code.SEND_REPLY_MESSAGE,
        Code.SEND_REPLY_MESSAGE_V2,
    )
)
PULLS: Final = frozenset((Code.PULL_MESSAGE, Code.LITE_PULL_MESSAGE))
_BATCH: Final = int(Code.SEND_BATCH_MESSAGE)
_RATES: Final = (Measure.MESSAGES, Measure.BYTES)
_CREATIONS: Final = (Measure.TOPICS, Measure.GROUPS)
_DERIVED: Final = (RETRY_PREFIX, DEAD_LETTER_PREFIX)  # topics that come with a group
_LOGGED_MS: Final = 60_000
_LOGGED_MAX: Final = 1_000
AnyHandler = Callable[[Connection, Received[Any]], Any]


class QuotaGate:
    """Owner of who has used how much. ``adopt`` before anything else, and after each change of the settings."""

    def __init__(
        self,
        environment: Environment,
        tables: Tables,
        owners: OwnerTable,
        gate: SendGate,
        pulls: PullHandler,
        counters: Counters,
    ) -> None:
        self._settings = environment.settings
        self._clock = environment.clock
        self._access = environment.access if isinstance(environment.access, GuardedAccess) else None
        self._tables = tables
        self._owners = owners
        self._gate = gate
        self._pulls = pulls
        self._counters = counters
        self._texts: tuple[str, ...] = ()
        self._rules = QuotaRules()
        self._meter = Meter(self._rules, self._clock)
        self._creator: Principal | None = None  # of the request under way
        self._users: dict[Connection, str] = {}  # by their heartbeats
        self._ips: dict[Connection, str] = {}  # of all connections
        self._connections: Counter[Limit] = Counter()  # that count towards a limit
        self._logged: dict[str, int] = {}  # until when a reason is not logged again, by the monotonic clock

    def adopt(self) -> bool:
        """Take the quotas of the settings over; whether they are others, and handlers must be wrapped anew."""
        if self._settings.quotas == self._texts:
            return False
        self._texts = self._settings.quotas
        self._rules = QuotaRules(parse_quotas(self._texts))
        self._meter = Meter(self._rules, self._clock)
        self._connections.clear()
        for scope, names in ((QuotaScope.ADDRESS, self._ips), (QuotaScope.USER, self._users)):
            limits = [self._rules.find(scope, Measure.CONNECTIONS, name) for name in names.values()]
            self._connections.update(limit for limit in limits if limit is not None)
        self._pulls.charge = self._charge_read if self._limits_reads else None
        self._count_creations()
        return True

    # --- handlers ---

    def layers(self) -> list[Layer]:
        """What stands in front of handlers, as long as the quotas are these."""
        rules, found = self._rules, list[Layer]()
        if rules.has(_RATES, QuotaScope.USER, QuotaScope.ADDRESS, QuotaScope.TOPIC):
            found.append(layer(SENDS, self._send))
        if self._limits_reads:
            found.append(layer(PULLS, self._pull))
        if rules.has((Measure.CONNECTIONS,), QuotaScope.USER):
            found.append(layer((Code.HEART_BEAT,), self._heartbeat))
        if self._limits_creation:
            found.append(layer(None, self._named))
        return found

    @property
    def _limits_reads(self) -> bool:
        return self._rules.has(_RATES, QuotaScope.USER, QuotaScope.ADDRESS, QuotaScope.GROUP)

    @property
    def _limits_creation(self) -> bool:
        return self._rules.has(_CREATIONS, QuotaScope.USER)

    # --- rates ---

    def _send(self, code: int, handler: Deferred) -> Deferred:
        def handle(connection: Connection, request: Received[SendHeader]) -> None:
            if self._gate.draining:  # it was charged when it came, and waited for the disk
                handler(connection, request)
                return
            header, user = request.header, self._user(connection, request)
            ip = connection.session_as(Session).peer.ip
            whose = ((QuotaScope.USER, user), (QuotaScope.ADDRESS, ip), (QuotaScope.TOPIC, header.topic))
            account = self._meter.account(Direction.SENT, *whose)
            limit = self._meter.used_up(account)
            if limit is not None and not header.topic.startswith(RETRY_PREFIX):
                self._counters.quota_sends += 1
                raise RefusedError(ResponseCode.SYSTEM_BUSY, _later(limit))
            handler(connection, request)
            is_batch = header.batch or request.code == _BATCH
            self._meter.charge(account, count_items(request.body) if is_batch else 1, len(request.body))

        return handle

    def _pull(self, code: int, handler: Deferred) -> Deferred:
        def handle(connection: Connection, request: Received[PullHeader]) -> None:
            limit = self._meter.used_up(self._reader(connection, request))
            if limit is not None:
                self._counters.quota_pulls += 1
                raise RefusedError(ResponseCode.FLOW_CONTROL, _later(limit))
            handler(connection, request)

        return handle

    def _charge_read(self, connection: Connection, request: Received[PullHeader], result: ReadResult) -> None:
        self._meter.charge(self._reader(connection, request), result.count, result.size_bytes)

    def _reader(self, connection: Connection, request: Received[PullHeader]) -> Account:
        user, ip = self._user(connection, request), connection.session_as(Session).peer.ip
        whose = ((QuotaScope.USER, user), (QuotaScope.ADDRESS, ip), (QuotaScope.GROUP, request.header.consumer_group))
        return self._meter.account(Direction.READ, *whose)

    def _user(self, connection: Connection, request: Received[Any]) -> str:
        found = self._principal(connection, request)
        return found.name if found else ""

    def _principal(self, connection: Connection, request: Received[Any]) -> Principal | None:
        if self._access is None:
            return None
        try:
            return self._access.principal_of(connection, request)
        except AccessDeniedError:  # it is nobody any more; a pull that waits is refused for that elsewhere
            return None

    # --- connections ---

    @property
    def connections(self) -> int:
        """Number of connections that are open."""
        return len(self._ips)

    def connected(self, connection: Connection) -> None:
        """One too many is closed."""
        ip = connection.session_as(Session).peer.ip
        limit = self._rules.find(QuotaScope.ADDRESS, Measure.CONNECTIONS, ip)
        if limit is not None and self._connections[limit] >= limit.number:
            connection.close(self._over(connection, limit))
            return
        self._ips[connection] = ip
        if limit is not None:
            self._connections[limit] += 1

    def disconnected(self, connection: Connection) -> None:
        for scope, names in ((QuotaScope.ADDRESS, self._ips), (QuotaScope.USER, self._users)):
            name = names.pop(connection, "")
            self._uncount(self._rules.find(scope, Measure.CONNECTIONS, name))

    def _uncount(self, limit: Limit | None) -> None:
        if limit is not None:
            self._connections[limit] -= 1
            if self._connections[limit] <= 0:
                del self._connections[limit]

    def _heartbeat(self, code: int, handler: Immediate) -> Immediate:
        def handle(connection: Connection, request: Received[None]) -> Response | Steps:
            user = self._user(connection, request)
            if self._users.get(connection) != user:
                self._count_user(connection, user)
            return handler(connection, request)

        return handle

    def _count_user(self, connection: Connection, user: str) -> None:
        """Count a request against the quota of its user. Raises RefusedError."""
        limit = self._rules.find(QuotaScope.USER, Measure.CONNECTIONS, user)
        if limit is not None and self._connections[limit] >= limit.number:
            asyncio.get_running_loop().call_soon(connection.close, self._over(connection, limit))  # after the response
            raise RefusedError(ResponseCode.SYSTEM_BUSY, _later(limit))
        self._uncount(self._rules.find(QuotaScope.USER, Measure.CONNECTIONS, self._users.pop(connection, "")))
        if connection in self._ips:  # else it is closed already
            self._users[connection] = user
            if limit is not None:
                self._connections[limit] += 1

    def _over(self, connection: Connection, limit: Limit) -> str:
        """Why it is closed; counted, and logged once in a while."""
        self._counters.quota_connections += 1
        now_ms, reason = self._clock.monotonic_ms(), f"quota {limit} is used up"
        if now_ms >= self._logged.get(reason, 0):
            if len(self._logged) >= _LOGGED_MAX:
                self._logged.clear()
            self._logged[reason] = now_ms + _LOGGED_MS
            logger.warning("connection closed: peer=%s reason=%s", connection.remote_text, reason)
        return reason

    # --- topics and groups ---

    def _count_creations(self) -> None:
        counts, topics, groups = self._limits_creation, self._tables.topics, self._tables.groups
        topics.claim = partial(self._claim, Measure.TOPICS, self._owners.topics, topics.get) if counts else _nothing
        groups.claim = (
            partial(self._claim, Measure.GROUPS, self._owners.groups, groups.table.get) if counts else _nothing
        )

    def _named(self, code: int, handler: AnyHandler) -> AnyHandler:
        """Whatever the handler creates, it creates for the sender of the request."""

        def handle(connection: Connection, request: Received[Any]) -> Any:
            creator = self._creator = self._principal(connection, request)
            try:
                response = handler(connection, request)
            finally:
                self._creator = None
            return self._named_steps(creator, response) if isinstance(response, Generator) else response

        return handle

    def _named_steps(self, creator: Principal | None, steps: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        """Run the steps of a request in the name of its sender, so that what they create counts as the sender's."""
        go_on: Callable[[], Any] = partial(next, steps)
        while True:
            self._creator = creator
            try:
                asked = go_on()
            except StopIteration as end:
                return end.value
            finally:
                self._creator = None
            try:
                go_on = partial(steps.send, (yield asked))
            except Exception as error:  # of the work that was asked for: the steps decide what becomes of it
                go_on = partial(steps.throw, error)

    def _claim(
        self, measure: Measure, owners: dict[str, str], find: Callable[[str], object], names: Collection[str]
    ) -> None:
        """Note who makes these. Raises RefusedError when that would be too many."""
        names = [name for name in names if not name.startswith(_DERIVED)]
        for name in names:
            if owners.pop(name, None):  # of one that is gone
                self._owners.unsaved = True
        creator = self._creator
        if creator is None or self._access is None or self._access.guard.book.rules.is_super(creator):
            return  # the broker itself, or an operator on behalf of others
        limit = self._rules.find(QuotaScope.USER, measure, creator.name)
        if limit is None or not names:
            return
        made = [name for name, owner in owners.items() if owner == creator.name]
        gone = [name for name in made if find(name) is None]
        count = len(made) - len(gone)
        if count + len(names) > limit.number:
            self._counters.quota_creations += 1
            text = f"user {creator.name} has made {count} {measure}, quota {limit} does not allow {len(names)} more"
            raise RefusedError(ResponseCode.INVALID_PARAMETER, f"{text}: delete some, or ask for a larger quota")
        for name in gone:
            del owners[name]
        owners.update(dict.fromkeys(names, creator.name))
        self._owners.unsaved = True


def _later(limit: Limit) -> str:
    return f"{FLOW_CONTROL_TAG}quota {limit} is used up, start flow control for a while"


def _nothing(names: Collection[str]) -> None:
    return
