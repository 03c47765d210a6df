"""The lease in etcd, through the JSON gateway that every etcd serves (API version 3).

The version is etcd's revision of the key: a transaction writes only if it is still the one that was read. Reads go
through the quorum. Several endpoints are tried one after the other; a write that got no answer is not tried again,
since it may have happened.
"""

from __future__ import annotations

import ssl
from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Any, Final

from pyromq.failover.http_json import Answer, HttpJson
from pyromq.failover.record import LeaseConflictError, LeaseError, LeaseRecord, decode_record
from pyromq.failover.store import StoredLease

_OK: Final = 200
_UNAUTHENTICATED: Final = 16  # gRPC's code, which the gateway passes on


class EtcdLeaseStore:
    """``endpoints`` such as http://10.0.0.1:2379; ``user`` and ``password`` where etcd asks for them."""

    def __init__(
        self,
        endpoints: Sequence[str],
        key: str,
        *,
        user: str = "",
        password: str = "",
        context: ssl.SSLContext | None = None,
    ) -> None:
        if not endpoints:
            raise LeaseError("etcd: no endpoint was given")
        self._servers = [HttpJson(each, context=context) for each in endpoints]
        self._key = b64encode(key.encode()).decode()
        self._user, self._password = user, password

    async def read(self) -> StoredLease | None:
        answer = await self._ask_any("/v3/kv/range", {"key": self._key})
        found = _expect(answer).get("kvs")
        if not found:
            return None
        return StoredLease(decode_record(b64decode(found[0].get("value", ""))), str(found[0]["mod_revision"]))

    async def write(self, record: LeaseRecord, expected: str | None) -> str:
        compare = {"key": self._key, "target": "MOD", "result": "EQUAL", "mod_revision": expected or "0"}
        put = {"request_put": {"key": self._key, "value": b64encode(record.encode()).decode()}}
        answer = await self._ask_any("/v3/kv/txn", {"compare": [compare], "success": [put]}, again=False)
        outcome = _expect(answer)
        if not outcome.get("succeeded"):
            raise LeaseConflictError("the lease in etcd has changed")
        return str(outcome["header"]["revision"])

    async def close(self) -> None:
        """Close nothing: no connection is kept open."""

    async def _ask_any(self, path: str, body: dict[str, Any], *, again: bool = True) -> Answer:
        lost: LeaseError | None = None
        for server in list(self._servers):
            try:
                answer = await self._ask(server, path, body)
            except LeaseError as error:
                lost = error
                self._servers.append(self._servers.pop(0))  # the next one is asked first from now on
                if again or _was_not_sent(error):
                    continue
                break
            return answer
        raise lost or LeaseError("etcd: no endpoint was given")

    async def _ask(self, server: HttpJson, path: str, body: dict[str, Any]) -> Answer:
        if self._user and "Authorization" not in server.headers:
            await self._log_in(server)
        answer = await server.ask("POST", path, body)
        if self._user and _code(answer) == _UNAUTHENTICATED:  # tokens expire
            await self._log_in(server)
            answer = await server.ask("POST", path, body)
        if answer.status >= 500:
            raise LeaseError(f"{server.base}: {_text(answer)}")
        return answer

    async def _log_in(self, server: HttpJson) -> None:
        server.headers.pop("Authorization", None)
        answer = await server.ask("POST", "/v3/auth/authenticate", {"name": self._user, "password": self._password})
        server.headers["Authorization"] = str(_expect(answer)["token"])


def _was_not_sent(error: LeaseError) -> bool:
    """Nobody listened: the request did not arrive, and may be made somewhere else."""
    cause = error.__cause__
    return isinstance(getattr(cause, "reason", cause), ConnectionRefusedError)


def _expect(answer: Answer) -> dict[str, Any]:
    if answer.status != _OK or not isinstance(answer.body, dict):
        raise LeaseError(f"etcd refused: {_text(answer)}")
    return answer.body


def _code(answer: Answer) -> object:
    return answer.body.get("code") if isinstance(answer.body, dict) else None


def _text(answer: Answer) -> str:
    found = answer.body.get("message") or answer.body.get("error") if isinstance(answer.body, dict) else answer.body
    return f"status {answer.status}, {found}"
