"""The pages of an endpoint: what is answered to which path."""

from __future__ import annotations

import asyncio
import hmac
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from ipaddress import ip_address
from typing import Final

from pyromq.endpoint.verdicts import HealthVerdict
from pyromq.httpd.head import HttpRequest
from pyromq.httpd.server import HttpResponse
from pyromq.metrics.budget import LabelBudget
from pyromq.metrics.exposition import TextForm, encoded, form_for, written
from pyromq.metrics.process_table import OVERFLOW_SERIES
from pyromq.metrics.samples import Family, ServerSamples

_JSON: Final = "application/json"
_START: Final = b"PyroMQ: /metrics, /health/live, /health/ready, /health/startup\n"
COLLECT_S: Final = 30.0

Ask = Callable[[], Awaitable[list[ServerSamples]]]
Check = Callable[[], Awaitable[HealthVerdict]]


class EndpointPages:
    """On the thread of the endpoint. ``token``, if any, is asked for before metrics are shown."""

    def __init__(
        self, collect: Ask, checks: Mapping[str, Check], *, series_max: int, token: str, is_loopback: bool
    ) -> None:
        self._collect = collect
        self._checks = {f"/health/{name}": check for name, check in checks.items()}
        self._series_max = series_max
        self._token = token
        self._is_loopback = is_loopback
        self._budgets: dict[tuple[tuple[str, str], ...], LabelBudget] = {}  # by the labels of a part
        self._texts: tuple[list[ServerSamples], dict[TextForm, bytes]] | None = None  # of the last collection
        self._writing = asyncio.Lock()

    def is_probe(self, request: HttpRequest) -> bool:
        """A few bytes that somebody decides by whether to restart the process."""
        return request.path in self._checks

    async def answer(self, request: HttpRequest) -> HttpResponse:
        if self._is_loopback and not _is_local(request.host):
            return HttpResponse(421, b"this address is for names of this machine only: localhost, or its address\n")
        if request.path == "/metrics":
            return await self._metrics(request)
        if check := self._checks.get(request.path):
            verdict = await check()
            return HttpResponse(200 if verdict.ok else 503, verdict.body, _JSON)
        if request.path == "/":
            return HttpResponse(200, _START)
        return HttpResponse(404, b"there is nothing here; " + _START)

    async def _metrics(self, request: HttpRequest) -> HttpResponse:
        if self._token and not _bears(request.headers.get("authorization", ""), self._token):
            challenge = (("WWW-Authenticate", 'Bearer realm="pyromq"'),)
            return HttpResponse(401, b"metrics need the bearer token of this server\n", headers=challenge)
        form = form_for(request.headers.get("accept", ""))
        try:
            async with asyncio.timeout(COLLECT_S):
                parts = await self._collect()
        except TimeoutError:
            return HttpResponse(503, f"the event loop did not answer for {COLLECT_S:g} s\n".encode())
        return HttpResponse(200, await self._text(parts, form), form.content_type)

    async def _text(self, parts: list[ServerSamples], form: TextForm) -> bytes:
        """Written once for all who ask for the same collection in the same form."""
        async with self._writing:
            if self._texts is None or self._texts[0] is not parts:
                self._texts = parts, {}
            texts = self._texts[1]
            if form not in texts:
                pieces = []
                for piece in written(self.limited(parts), form):
                    pieces.append(encoded(piece))
                    await asyncio.sleep(0)  # lets go of the interpreter, which the servers' loop needs
                texts[form] = b"".join(pieces)
            return texts[form]

    def limited(self, parts: list[ServerSamples]) -> list[ServerSamples]:
        """Within the label budget, and what went beyond it."""
        keys = [tuple(part.common.items()) for part in parts]
        self._budgets = {key: self._budgets.get(key) or LabelBudget(self._series_max) for key in keys}
        found = [
            ServerSamples(part.common, [self._budgets[key].limited(family) for family in part.families])
            for key, part in zip(keys, parts, strict=True)
        ]
        dropped = Counter[str]()
        for budget in self._budgets.values():
            dropped.update(budget.dropped)
        if dropped and found:
            overflow = Family(OVERFLOW_SERIES, [((name,), count) for name, count in dropped.items()])
            found[0] = ServerSamples(found[0].common, [*found[0].families, overflow])
        return found


def _is_local(host: str) -> bool:
    """Not a name of somebody else that leads here: a page in a browser could read what its name leads to."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return bool(ip_address(host.partition("%")[0]))
    except ValueError:
        return not host


def _bears(header: str, token: str) -> bool:
    scheme, _, given = header.partition(" ")
    return scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), token.encode())
