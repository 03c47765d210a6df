"""Where the name servers are: addresses that were given, or the URL of an address server that lists them.

    10.0.0.1:9876;10.0.0.2:9876                   addresses
    http://host:8080/rocketmq/nsaddr              asked with GET; the first line of the response is such a list
    http://host                                   the same: RocketMQ's port and path

An address server is asked again every two minutes. While it cannot be reached, the last list stays in use.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from http.client import HTTPException
from typing import Final
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import ProxyHandler, Request, build_opener

from pyromq.clock import Clock
from pyromq.errors import ConfigError, ConnectFailedError
from pyromq.net.address import Address

logger = logging.getLogger(__name__)

REFRESH_MS: Final = 120_000
FETCH_TIMEOUT_MS: Final = 3_000
_RESPONSE_BYTES_MAX: Final = 64 * 1024
_PORT: Final = 8080
_PATH: Final = "/rocketmq/nsaddr"

Fetch = Callable[[str], Awaitable[str]]
"""The text that a URL answers with; raises ConnectFailedError."""


def parse_nameservers(given: str | Iterable[str]) -> tuple[str, ...]:
    """``a:9876;b:9876``, or several such texts, as single texts."""
    texts = [given] if isinstance(given, str) else given
    return tuple(address.strip() for text in texts for address in text.split(";") if address.strip())


def check_nameservers(nameservers: Sequence[str]) -> None:
    """Check a list of name servers: addresses, or one URL. Raises ConfigError."""
    for text in nameservers:
        if is_url(text) and "@" in text.partition("://")[2].partition("/")[0]:
            raise ConfigError("the URL of an address server holds a user or password, which are not sent: remove them")
        if not is_url(text):
            Address.parse(text)
        elif len(nameservers) > 1:
            raise ConfigError(f"name servers {';'.join(nameservers)!r}: write addresses or one URL, not both")
        else:
            address_url(text)


def is_url(text: str) -> bool:
    return "://" in text


def host_of(nameserver: str) -> str:
    """The host of an address or URL."""
    return (urlsplit(nameserver).hostname or "") if is_url(nameserver) else Address.parse(nameserver).host


def address_url(text: str, unit_name: str = "") -> str:
    """The URL to ask, RocketMQ's port and path added to a bare host. Raises ConfigError."""
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise ConfigError(f"{text!r} is not the URL of an address server: {error}") from error
    if parts.scheme not in ("http", "https") or not host:
        raise ConfigError(f"{text!r} is not the URL of an address server; write http://host:port{_PATH}")
    if parts.path in ("", "/") and not parts.query:
        where = parts.netloc if port is not None or parts.scheme == "https" else f"{parts.netloc}:{_PORT}"
        text = f"{parts.scheme}://{where}{_PATH}"
    return f"{text}-{unit_name}?nofix=1" if unit_name and text.endswith(_PATH) else text


async def fetch_text(url: str, *, timeout_ms: int = FETCH_TIMEOUT_MS) -> str:
    """Fetch the list of name servers from a URL. Raises ConnectFailedError."""
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            return await asyncio.to_thread(_fetch, url, timeout_ms / 1000)
    except TimeoutError as error:
        text = f"address server {url} did not answer within {timeout_ms} ms"
        raise ConnectFailedError(text, peer=url) from error


class NameServerList:
    """The addresses that are known now; ``refresh`` gets newer ones where there is an address server."""

    def __init__(self, given: Sequence[str], *, clock: Clock, unit_name: str = "", fetch: Fetch | None = None) -> None:
        check_nameservers(given)
        self.url = address_url(given[0], unit_name) if given and is_url(given[0]) else ""
        self.addresses: tuple[str, ...] = () if self.url else tuple(given)
        self._clock = clock
        self._fetch = fetch or fetch_text
        self._asked_ms: int | None = None  # monotonic, the last attempt
        self._refreshing = asyncio.Lock()

    @property
    def is_due(self) -> bool:
        """An address server should be asked now: it never answered, or not for two minutes."""
        if not self.url:
            return False
        return not self.addresses or self._asked_ms is None or self._clock.monotonic_ms() - self._asked_ms >= REFRESH_MS

    async def refresh(self) -> bool:
        """Ask if it is due; whether the addresses are others now.

        Raises ConnectFailedError only when there are none to go on with.
        """
        async with self._refreshing:  # a caller that waited here has the response to another one's request
            if not self.is_due:
                return False
            try:
                addresses = _parse_response(self.url, await self._fetch(self.url))
            except ConnectFailedError as error:
                if not self.addresses:
                    raise
                logger.warning("list of name servers not renewed: error=%s", error)
                addresses = self.addresses
            self._asked_ms = self._clock.monotonic_ms()
            changed, self.addresses = set(addresses) != set(self.addresses), addresses
        if changed:
            logger.info("name servers: addresses=%s source=%s", ";".join(addresses), self.url)
        return changed


def _parse_response(url: str, text: str) -> tuple[str, ...]:
    first = text.strip().splitlines()[0] if text.strip() else ""
    addresses = parse_nameservers(first)
    try:
        for address in addresses:
            Address.parse(address)
    except ConfigError as error:
        raise ConnectFailedError(
            f"address server {url} did not answer with a list of addresses: {error}", peer=url
        ) from error
    if not addresses:
        raise ConnectFailedError(f"address server {url} knows no name server", peer=url)
    return addresses


def _fetch(url: str, timeout_s: float) -> str:
    opener = build_opener(ProxyHandler({}))  # straight there, as RocketMQ's clients go
    try:
        with opener.open(Request(url, headers={"User-Agent": "pyromq"}), timeout=timeout_s) as response:
            status, body = response.status, response.read(_RESPONSE_BYTES_MAX)
    except HTTPError as error:
        status, body = error.code, b""
        error.close()
    except (HTTPException, OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise ConnectFailedError(f"request to address server {url} failed: {reason}", peer=url) from error
    if status != 200:
        raise ConnectFailedError(f"address server {url} answered with HTTP status {status}", peer=url)
    return str(body.decode("utf-8", "replace"))
