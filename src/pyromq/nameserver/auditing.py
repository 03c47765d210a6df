"""The audit log of a name server: what tools change, with before and after, and what was refused.

There is one where the server has a folder: ``audit/`` beside the key-value file.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import msgspec

from pyromq.clock import Clock
from pyromq.errors import MQError
from pyromq.nameserver.settings import NameServerSettings, describe_settings
from pyromq.nameserver.state import Answer, AnswerT, Handle, NameServerState
from pyromq.net import Connection
from pyromq.security.audit import FOLDER, AuditEntry, AuditLog, AuditOutcome
from pyromq.security.audited import AUDITED_BY_NAMESERVERS, action_name, subject_of, user_state
from pyromq.security.errors import AccessDeniedError
from pyromq.security.guard import Guard
from pyromq.security.identity import Peer
from pyromq.security.requests import ACCESS_CODES
from pyromq.setting_keys import parse_lines
from pyromq.wire.codes import RequestCode as Code
from pyromq.wire.received import Received

SERVER = "nameserver"


def open_log(settings: NameServerSettings, clock: Clock) -> AuditLog | None:
    """None: there is no folder, or the settings want none."""
    if settings.kv_path is None or not settings.audit.enabled:
        return None
    return AuditLog(settings.kv_path.parent / FOLDER, SERVER, settings.audit, clock.now_ms)


class NameServerAuditing:
    """Between requests that change something and what carries them out."""

    def __init__(self, log: AuditLog, state: NameServerState, clock: Clock, guard: Guard | None) -> None:
        self.log = log
        self._state = state
        self._clock = clock
        self._guard = guard
        if guard is not None:
            guard.on_refused = self._refused

    def handles(self, handles: dict[int, Handle]) -> dict[int, Handle]:
        """Wrap the handlers of requests that change something audited; return the others as they are."""
        return {
            code: self._audited(handle) if code in AUDITED_BY_NAMESERVERS else handle
            for code, handle in handles.items()
        }

    def _audited(self, handle: Handle) -> Handle:
        def audited(state: NameServerState, request: Received[Any], connection: Hashable) -> Answer:
            return self.watch(request, connection, lambda: handle(state, request, connection))

        return audited

    def watch(self, request: Received[Any], connection: Hashable, carry_out: Callable[[], AnswerT]) -> AnswerT:
        """What ``carry_out`` does, written down. Raises what it raises."""
        peer = Peer(connection.remote.host, connection.peer_name) if isinstance(connection, Connection) else Peer("")
        entry = self._entry(request, peer, self._user(request, peer))
        before = self._shown(request)
        try:
            response = carry_out()
        except MQError as error:
            self.log.refused(msgspec.structs.replace(entry, outcome=AuditOutcome.REFUSED, reason=str(error)))
            raise
        after = self._shown(request)
        changes = {
            name: (before.get(name), after.get(name))
            for name in sorted({*before, *after})
            if before.get(name) != after.get(name)
        }
        self.log.record(msgspec.structs.replace(entry, changes=changes))
        return response

    def _refused(self, request: Received[Any], peer: Peer, user: str, reason: str) -> None:
        """By the guard, whatever it is that was asked for."""
        entry = self._entry(request, peer, user)
        self.log.refused(msgspec.structs.replace(entry, outcome=AuditOutcome.REFUSED, reason=reason))

    def _user(self, request: Received[Any], peer: Peer) -> str:
        if self._guard is None:
            return ""
        try:
            return self._guard.verify(request, peer).name
        except AccessDeniedError:
            return ""

    def _entry(self, request: Received[Any], peer: Peer, user: str) -> AuditEntry:
        return AuditEntry(
            time_ms=self._clock.now_ms(),
            server=SERVER,
            address=peer.ip,
            action=action_name(request.code),
            outcome=AuditOutcome.DONE,
            user=user,
            resources=_resources(request),
        )

    def _shown(self, request: Received[Any]) -> dict[str, Any]:
        """What the request may change, as it is now; without secrets."""
        header = request.header
        if request.code in ACCESS_CODES:
            return user_state(self._guard.book.rules, subject_of(request)) if self._guard else {}
        if request.code == Code.UPDATE_NAMESRV_CONFIG:
            return {f"Setting:{key}": value for key, value in parse_lines(describe_settings(self._state.settings))}
        if request.code in (Code.PUT_KV_CONFIG, Code.DELETE_KV_CONFIG):
            value = self._state.kv.get(header.namespace, header.key)
            return {} if value is None else {_kv(header): value}
        return {}


def _resources(request: Received[Any]) -> tuple[str, ...]:
    header = request.header
    if request.code in ACCESS_CODES:
        return (f"User:{subject_of(request)}",)
    if hasattr(header, "namespace"):
        return (_kv(header),)
    names = (("Cluster", "cluster_name"), ("Broker", "broker_name"), ("Topic", "topic"))
    return tuple(f"{kind}:{name}" for kind, field in names if (name := getattr(header, field, None)))


def _kv(header: Any) -> str:
    return f"Kv:{header.namespace}/{getattr(header, 'key', '*')}"
