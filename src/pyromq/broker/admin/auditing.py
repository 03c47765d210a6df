"""Requests that change something, written into the audit log with what was before and after; and the log, asked for.

Auditing is a layer in front of the handlers that change something; all others stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from pyromq.broker.base.access import GuardedAccess
from pyromq.broker.base.config import describe
from pyromq.broker.base.environment import Environment
from pyromq.broker.base.long_responses import PIECE, PIECES_AT_ONCE, Steps, elsewhere
from pyromq.broker.base.responses import Deferred, Immediate, Response
from pyromq.broker.base.session import Session
from pyromq.broker.dispatching.layers import Layer
from pyromq.broker.state.tables import Tables
from pyromq.errors import MQError
from pyromq.net.connection import Connection
from pyromq.security.audit import RESOURCES_MAX, AuditEntry, AuditLog, AuditOutcome, answer_of
from pyromq.security.audited import AUDITED_BY_BROKERS, action_name, subject_of, user_state
from pyromq.security.errors import AccessDeniedError
from pyromq.security.identity import Peer
from pyromq.security.policies import USER_PREFIX
from pyromq.security.requests import ACCESS_CODES
from pyromq.security.resources import ResourceType
from pyromq.security.rights import BROKER_RIGHTS
from pyromq.wire.codes import RequestCode as Code
from pyromq.wire.headers import REQUEST_HEADERS
from pyromq.wire.received import Received

_QUEUES_MAX: Final = 256  # whose offsets are reported
_ACCESS: Final = frozenset(ACCESS_CODES)
_ON_A_WORKER: Final = PIECE * (PIECES_AT_ONCE + 1)  # as many as make a response a long one


@dataclass(slots=True)
class _Step:
    """A request under way."""

    entry: AuditEntry
    before: dict[str, Any] = field(default_factory=dict)


class Auditing:
    """Request 31001. Stands between requests that change something and their handlers."""

    def __init__(self, log: AuditLog, environment: Environment, tables: Tables) -> None:
        self.log = log
        self._environment = environment
        self._access = environment.access if isinstance(environment.access, GuardedAccess) else None
        self._topics = tables.topics
        self._groups = tables.groups
        self._progress = tables.progress
        if self._access is not None:
            self._access.guard.on_refused = self._refused

    # --- what is asked for ---

    def find(self, connection: Connection, request: Received[None]) -> Steps:
        """Entries, newest first, as JSON; files are read on a worker."""
        answer = answer_of(self.log, request.body)
        yield from elsewhere(_ON_A_WORKER)
        return answer

    # --- what is written ---

    def layer(self) -> Layer:
        """Writes down what is changed by the requests that change something."""
        return Layer(frozenset(AUDITED_BY_BROKERS), self._audited, self._noted)

    def _audited(self, code: int, handler: Immediate) -> Immediate:
        def handle(connection: Connection, request: Received[Any]) -> Response | Steps:
            step = self._begin(connection, request)
            try:
                response = handler(connection, request)
            except MQError as error:
                self._fail(step, error)
                raise
            if isinstance(response, Generator):
                return self._watched(step, request, response)
            self._end(step, request)
            return response

        return handle

    def _watched(self, step: _Step, request: Received[Any], steps: Steps) -> Steps:
        try:
            job = yield from steps
        except MQError as error:
            self._fail(step, error)
            raise
        self._end(step, request)
        return job

    def _noted(self, code: int, handler: Deferred) -> Deferred:
        """One whose outcome comes later, from elsewhere."""

        def handle(connection: Connection, request: Received[Any]) -> None:
            step = self._begin(connection, request)
            try:
                handler(connection, request)
            except MQError as error:
                self._fail(step, error)
                raise
            self.log.record(msgspec.structs.replace(step.entry, outcome=AuditOutcome.ASKED))

        return handle

    def _begin(self, connection: Connection, request: Received[Any]) -> _Step:
        user = ""
        if self._access is not None:
            try:
                user = self._access.principal_of(connection, request).name
            except AccessDeniedError:  # it lost its rights since it was admitted; the handler says so
                pass
        entry = self._entry(request, connection.session_as(Session).peer, AuditOutcome.DONE, user=user)
        return _Step(entry, self._state(request))

    def _end(self, step: _Step, request: Received[Any]) -> None:
        after = self._state(request)
        names = sorted({*step.before, *after})
        changes = {
            name: (step.before.get(name), after.get(name)) for name in names if step.before.get(name) != after.get(name)
        }
        self.log.record(msgspec.structs.replace(step.entry, changes=changes))

    def _fail(self, step: _Step, error: MQError) -> None:
        self.log.refused(msgspec.structs.replace(step.entry, outcome=AuditOutcome.REFUSED, reason=str(error)))

    def _refused(self, request: Received[Any], peer: Peer, user: str, reason: str) -> None:
        """By the guard, whatever it is that was asked for; what strangers send is not looked into."""
        self.log.refused(self._entry(request, peer, AuditOutcome.REFUSED, user=user, reason=reason))

    def _entry(
        self, request: Received[Any], peer: Peer, outcome: AuditOutcome, *, user: str, reason: str = ""
    ) -> AuditEntry:
        return AuditEntry(
            time_ms=self._environment.clock.now_ms(),
            server=self.log.server,
            address=peer.ip,
            action=action_name(request.code),
            outcome=outcome,
            user=user,
            resources=self._resources(request) if user or self._access is None else (),
            reason=reason,
        )

    # --- what it is about ---

    def _resources(self, request: Received[Any]) -> tuple[str, ...]:
        right = BROKER_RIGHTS.get(request.code)
        if right is None or (request.header is None and request.code in REQUEST_HEADERS):
            return ()  # nothing that is answered, or a header that could not be read
        if request.code in _ACCESS:
            return (f"{USER_PREFIX}{subject_of(request)}",)
        try:
            needs = list(right.needs(request, self._environment.settings.cluster))
        except MQError:  # the handler says what is wrong with it
            return ()
        return tuple(str(need.resource) for need in needs[:RESOURCES_MAX])

    def _state(self, request: Received[Any]) -> dict[str, Any]:
        """What the request may change, as it is now; without secrets."""
        code = request.code
        if code in _ACCESS:
            return user_state(self._access.guard.book.rules, subject_of(request)) if self._access else {}
        if code == Code.UPDATE_BROKER_CONFIG:
            settings = self._environment.settings
            return {f"Setting:{key}": value for key, value in describe(settings, "", 0).items()}
        state: dict[str, Any] = {}
        for text in self._resources(request):
            kind, _, name = text.partition(":")
            table = self._tables.get(kind)
            if table is not None and (found := table(name)) is not None:
                state[text] = msgspec.to_builtins(found)
        if code in (Code.INVOKE_BROKER_TO_RESET_OFFSET, Code.CLONE_GROUP_OFFSET):
            state |= self._offsets(request)
        return state

    @property
    def _tables(self) -> dict[str, Callable[[str], object]]:
        return {ResourceType.TOPIC.value: self._topics.table.get, ResourceType.GROUP.value: self._groups.table.get}

    def _offsets(self, request: Received[Any]) -> dict[str, Any]:
        header = request.header
        group, topic = str(getattr(header, "group", None) or getattr(header, "dest_group", "")), header.topic or ""
        config = self._topics.table.get(topic)
        queues = range(min(config.read_queue_nums, _QUEUES_MAX)) if config else range(0)
        found = {str(queue): self._progress.committed(group, topic, queue) for queue in queues}
        return {f"Offsets:{topic}@{group}": found}
