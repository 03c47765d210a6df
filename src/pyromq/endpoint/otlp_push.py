"""OTLP push: collections to a collector, every so often, from a thread of its own.

    every interval ─▶ is the last push still under way? ─yes▶ this one is dropped, and counted
                      └no▶ collect ─▶ requests of some hundred points ─▶ POST, each with a timeout

A collector that is slow or away costs nothing but a thread that waits. That it is so is said in the log once, and once
more when it is over.
"""

from __future__ import annotations

import asyncio
import http.client
import logging
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final
from urllib.parse import SplitResult, urlsplit

from pyromq.clock import SystemClock
from pyromq.errors import ConfigError
from pyromq.metrics import otlp
from pyromq.metrics.process_table import OTLP_EXPORTS
from pyromq.metrics.samples import Family, ServerSamples
from pyromq.metrics.settings import MetricsSettings

logger = logging.getLogger(__name__)

_PATH: Final = "/v1/metrics"
_ANSWER_BYTES_MAX: Final = 64 * 1024
_SHOWN_MAX: Final = 200


class OtlpPush:
    """On the endpoint's loop, from ``start`` to ``stop``."""

    def __init__(
        self,
        settings: MetricsSettings,
        collect: Callable[[], Awaitable[list[ServerSamples]]],
        limited: Callable[[list[ServerSamples]], list[ServerSamples]],
        *,
        interval_s: float | None = None,
    ) -> None:
        """Prepare pushes to an OpenTelemetry collector. Raises ConfigError when the file of headers cannot be read."""
        self._settings = settings
        self._collect = collect
        self._limited = limited
        self._interval_s = interval_s or settings.otlp_interval_ms / 1000
        self._headers = {"Content-Type": "application/json", **read_headers(settings)}
        self._started_ns = _now_ns()
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="pyromq-otlp")
        self._pushing: asyncio.Task[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_well = True
        self.counts = Counter[str]()

    def families(self) -> list[Family]:
        counts = self.counts
        return [Family(OTLP_EXPORTS, [((result,), counts[result]) for result in ("ok", "failed", "dropped")])]

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="push metrics")

    async def stop(self) -> None:
        """What is under way is given up: the next start reports it anew."""
        for task in (self._task, self._pushing):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        self._worker.shutdown(wait=False, cancel_futures=True)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._interval_s)
            self.push_soon()

    def push_soon(self) -> None:
        if self._pushing is not None and not self._pushing.done():
            self.counts["dropped"] += 1
            self._report_trouble("the collector takes longer than the interval")
            return
        self._pushing = asyncio.get_running_loop().create_task(self.push(), name="push metrics once")

    async def push(self) -> None:
        """Collect and send, whatever becomes of it."""
        try:
            parts = self._limited(await self._collect())
            resource = {"service.name": "pyromq", **(parts[0].common if parts else {})}
            for body in otlp.requests(parts, resource, self._started_ns, _now_ns()):
                await asyncio.get_running_loop().run_in_executor(self._worker, self._post, body)
        except (OSError, http.client.HTTPException, _RefusedPushError) as error:
            self.counts["failed"] += 1
            self._report_trouble(str(error) or type(error).__name__)
        except Exception:  # a defect must not end the pushes to come
            self.counts["failed"] += 1
            logger.exception("metrics not pushed")
        else:
            self.counts["ok"] += 1
            if not self._is_well:
                self._is_well = True
                logger.warning("metrics are pushed again: endpoint=%s", self._settings.otlp_endpoint)

    def _report_trouble(self, reason: str) -> None:
        if self._is_well:
            self._is_well = False
            logger.warning(
                "metrics not pushed, further failures are only counted: endpoint=%s reason=%s",
                *(self._settings.otlp_endpoint, reason[:_SHOWN_MAX]),
            )

    def _post(self, body: bytes) -> None:
        """On the worker thread."""
        url = urlsplit(self._settings.otlp_endpoint)
        connection = _connection(url, self._settings.otlp_timeout_ms / 1000)
        try:
            connection.request("POST", path_of(url), body, self._headers)
            response = connection.getresponse()
            text = response.read(_ANSWER_BYTES_MAX)
            if not 200 <= response.status < 300:
                raise _RefusedPushError(f"status {response.status}: {text[:_SHOWN_MAX]!r}")
        finally:
            connection.close()


def _now_ns() -> int:
    return SystemClock().now_ms() * 1_000_000


class _RefusedPushError(Exception):
    """The collector answered, and did not take it."""


def path_of(url: SplitResult) -> str:
    """A URL without a path means the usual one."""
    path = url.path if url.path not in ("", "/") else _PATH
    return f"{path}?{url.query}" if url.query else path


def _connection(url: SplitResult, timeout_s: float) -> http.client.HTTPConnection:
    assert url.hostname is not None
    if url.scheme == "https":
        return http.client.HTTPSConnection(
            url.hostname, url.port, timeout=timeout_s, context=ssl.create_default_context()
        )
    return http.client.HTTPConnection(url.hostname, url.port, timeout=timeout_s)


def read_headers(settings: MetricsSettings) -> dict[str, str]:
    """Lines ``Name: value``. Raises ConfigError, which does not show them."""
    path = settings.otlp_headers_file
    if path is None:
        return {}
    try:
        lines: Sequence[str] = path.read_text(encoding="ascii").splitlines()
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"metrics.otlp_headers_file {path} cannot be read: {error}") from error
    found = {}
    for number, line in enumerate(lines, 1):
        name, colon, value = line.partition(":")
        if not line.strip() or line.startswith("#"):
            continue
        if not colon or not name.strip():
            raise ConfigError(f"metrics.otlp_headers_file {path}, line {number} is not of the form Name: value")
        found[name.strip()] = value.strip()
    return found
