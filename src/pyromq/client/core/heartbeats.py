"""Heartbeats: how brokers know that a client is there, and which producers and consumers it has.

A connection to a broker begins with one, so the broker knows the client before the first request. After that all known
brokers hear one from time to time: a client that is silent for too long is taken for dead, and its queues are given to
others.

The response says whether the broker takes the story of a failure with a send-back (``wire.headers``: PyroMQ's does,
Apache's does not). That holds for the connection it came on: behind the next one there may be another broker. It also
says in which groups other members subscribe to something else, which is logged whenever it changes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec

from pyromq.client.core.brokers import Brokers
from pyromq.client.core.errors import error_of
from pyromq.client.core.roles import ClientRole, heartbeat_of
from pyromq.client.core.signing import Signer
from pyromq.errors import MQError, NoPermissionError
from pyromq.net import Connection, Link
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.headers.consumer import HeartbeatResponseHeader
from pyromq.wire.json.heartbeat import Heartbeat, encode_heartbeat
from pyromq.wire.received import Received

logger = logging.getLogger(__name__)

_HEART_BEAT: Final = RequestCode.HEART_BEAT


class HeartbeatResult(NamedTuple):
    """How many brokers took a heartbeat, and what one said that refused it with NO_PERMISSION."""

    accepted: int = 0
    refusal: NoPermissionError | None = None


class Heartbeats:
    """Heartbeats of one client, whose ``roles`` come and go."""

    def __init__(
        self, client_id: str, roles: Sequence[ClientRole], brokers: Brokers, signer: Signer, *, timeout_ms: int
    ) -> None:
        self._client_id = client_id
        self._roles = roles
        self._brokers = brokers
        self._signer = signer
        self._timeout_ms = timeout_ms
        self._odd: dict[tuple[str, str], str] = {}  # by broker and group: how our subscription differs from others'

    async def send_all(self) -> HeartbeatResult:
        """All known brokers, connecting if need be; those that cannot be reached are logged."""
        heartbeat = heartbeat_of(self._client_id, self._roles)
        if heartbeat is None:
            return HeartbeatResult()
        body = encode_heartbeat(heartbeat)
        addresses = self._brokers.addresses(masters_only=not heartbeat.consumer_data_set)
        sent = [self._report(address, body) for address in addresses]
        accepted, refusal = 0, None
        for address, outcome in zip(addresses, await asyncio.gather(*sent, return_exceptions=True), strict=True):
            if isinstance(outcome, MQError):
                logger.warning("heartbeat failed: broker=%s error=%s", address, outcome)
                refusal = outcome if isinstance(outcome, NoPermissionError) else refusal
            elif isinstance(outcome, BaseException):
                raise outcome
            else:
                accepted += 1
        return HeartbeatResult(accepted, refusal)

    async def _report(self, address: str, body: bytes) -> None:
        """Send a heartbeat to one broker. Raises MQError, also for an address that is none: routes say what brokers
        registered.
        """
        link = self._brokers.link(address)
        response = await link.request(_HEART_BEAT, self._signer.signed(None, body), body, timeout_ms=self._timeout_ms)
        if response.code != ResponseCode.SUCCESS:
            raise error_of(response)
        self._compare(address, response)

    async def ask_whether_it_takes_stories(self, link: Link) -> bool:
        """By a heartbeat, without groups if there are none, where none was answered yet. Raises TransportError."""
        connection = await link.connection(timeout_ms=self._timeout_ms)
        if (known := takes_stories(connection)) is not None:
            return known
        heartbeat = heartbeat_of(self._client_id, self._roles) or Heartbeat(client_id=self._client_id)
        body = encode_heartbeat(heartbeat)
        response = await connection.request(
            _HEART_BEAT, self._signer.signed(None, body), body, timeout_ms=self._timeout_ms
        )
        _learn(connection, response)
        return takes_stories(connection) or False

    async def probe(self, connection: Connection, timeout_ms: int) -> None:
        """A sign of life, by a heartbeat that names no group: whatever is answered will do. Raises TransportError."""
        body = encode_heartbeat(Heartbeat(client_id=self._client_id))
        await connection.request(_HEART_BEAT, self._signer.signed(None, body), body, timeout_ms=timeout_ms)

    def greet(self, connection: Connection) -> None:
        """A new connection, or one whose broker should hear at once that a role joined."""
        heartbeat = heartbeat_of(self._client_id, self._roles)
        if heartbeat is None or not connection.is_open:
            return
        body = encode_heartbeat(heartbeat)
        signed = self._signer.signed(None, body)
        response = connection.request_nowait(_HEART_BEAT, signed, body, timeout_ms=self._timeout_ms)
        response.add_done_callback(partial(self._greeted, connection))

    def _greeted(self, connection: Connection, response: asyncio.Future[Received[Any]]) -> None:
        if response.cancelled():
            return
        if (error := response.exception()) is not None:
            logger.warning("heartbeat failed: broker=%s error=%s", connection.remote_text, error)
            return
        greeting = response.result()
        if greeting.code == ResponseCode.SUCCESS or connection.session is None:
            _learn(connection, greeting)
        if greeting.code != ResponseCode.SUCCESS:
            logger.warning("heartbeat refused: broker=%s error=%s", connection.remote_text, error_of(greeting))
        else:
            self._compare(connection.remote_text, greeting)

    def _compare(self, broker: str, response: Received[Any]) -> None:
        """Logs that members of a group subscribe to different things, once for all brokers that say the same."""
        facts: dict[str, str] = {}
        with suppress(MQError, msgspec.MsgspecError):  # a broker that says it in another way does not say it
            text = response.header_as(HeartbeatResponseHeader).odd_subscriptions
            facts = msgspec.json.decode(text, type=dict[str, str]) if text else {}
        known = {each: text for each, text in self._odd.items() if each[0] == broker}
        for group, text in facts.items():
            if (group, text) not in {(each[1], said) for each, said in self._odd.items()}:
                logger.warning("members of a group have different subscriptions: group=%s: %s", group, text)
            self._odd[broker, group] = text
        for broker_and_group in known:
            if broker_and_group[1] not in facts:
                del self._odd[broker_and_group]


def takes_stories(connection: Connection) -> bool | None:
    """Whether the broker behind it does; None before it has answered a heartbeat."""
    return connection.session if isinstance(connection.session, bool) else None


def _learn(connection: Connection, response: Received[Any]) -> None:
    """A refusal says nothing, and is taken for no: what is sent then suits every broker."""
    connection.session = False
    if response.code == ResponseCode.SUCCESS:
        with suppress(MQError):  # a broker that says it in another way does not say it
            connection.session = bool(response.header_as(HeartbeatResponseHeader).takes_stories)
