"""JSON over HTTP for lease stores: one request at a time, in a thread, with a deadline."""

from __future__ import annotations

import asyncio
import http.client
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import msgspec

from pyromq.failover.record import LeaseError, LeaseStoreAwayError

TIMEOUT_S: Final = 2.0  # of one request; an agent must be able to try again before its lease ends
_BYTES_MAX: Final = 1 << 20


class Answer(NamedTuple):
    status: int
    body: Any


class HttpJson:
    """Requests to one server; redirects are not followed, so that credentials go nowhere else."""

    def __init__(
        self,
        base: str,
        *,
        headers: Mapping[str, str] | None = None,
        context: ssl.SSLContext | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        parts = urlsplit(base)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise LeaseError(f"{base!r} is not of the form http://host:port")
        self.base = base.rstrip("/")
        self.headers = dict(headers or {})
        self._timeout_s = timeout_s
        handlers: list[urllib.request.BaseHandler] = [_NoRedirects(), urllib.request.ProxyHandler({})]
        if context is not None:
            handlers.append(urllib.request.HTTPSHandler(context=context))
        self._opener = urllib.request.build_opener(*handlers)

    async def ask(self, method: str, path: str, body: Any = None) -> Answer:
        """Send a JSON request; an answer with an error status is an answer. Raises LeaseStoreAwayError when there is
        none.
        """
        return await asyncio.to_thread(self._ask, method, path, body)

    def _ask(self, method: str, path: str, body: Any) -> Answer:
        data = None if body is None else msgspec.json.encode(body)
        headers = {"Content-Type": "application/json", "Accept": "application/json", **self.headers}
        request = urllib.request.Request(f"{self.base}{path}", data=data, headers=headers, method=method)
        try:
            with self._opener.open(request, timeout=self._timeout_s) as response:
                return Answer(response.status, _decoded(response.read(_BYTES_MAX)))
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, _decoded(error.read(_BYTES_MAX)))
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise LeaseStoreAwayError(f"{self.base} does not answer: {error}") from error


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _decoded(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data) if data else None
    except (msgspec.MsgspecError, UnicodeError):
        return data[:200].decode(errors="replace")
