"""What a replica asks its master, over the port for clients: how long its log is, its tables, its offsets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from pyromq.errors import RemoteProtocolError, quoted
from pyromq.net.link import Link
from pyromq.replication.follower import MasterLog
from pyromq.wire.codes import RequestCode as Code
from pyromq.wire.codes import ResponseCode
from pyromq.wire.headers.consumer import UpdateConsumerOffsetHeader
from pyromq.wire.json import bodies, java_json
from pyromq.wire.json.membership import BrokerStatus, MemberReport

_TIMEOUT_MS: Final = 10_000


class MasterTables(NamedTuple):
    """The tables of a master as their files have them, and how far its log was when all had been asked for.

    An empty text: the master does not have the table.
    """

    topics: bytes
    groups: bytes
    offsets: bytes
    delay_offsets: bytes
    timer_check: bytes
    timer_metrics: bytes
    request_modes: bytes
    log_end: int


class MasterCalls:
    """One master at a time; ``close`` at the end."""

    def __init__(self, open_link: Callable[[str], Link]) -> None:
        self._open_link = open_link
        self._link: Link | None = None
        self._address = ""

    async def at(self, address: str) -> None:
        """Which master is asked from now on."""
        if address != self._address:
            await self.close()
            self._link, self._address = self._open_link(address), address

    async def close(self) -> None:
        link, self._link, self._address = self._link, None, ""
        if link is not None:
            await link.close()

    async def log(self) -> MasterLog | None:
        """How far the master's log goes; None when the master's port for clients is not known. Raises MQError."""
        if self._link is None:
            return None
        table = java_json.decode(await self._ask(Code.GET_BROKER_RUNTIME_INFO), bodies.KeyValues).table
        try:
            return MasterLog(max(0, int(table["commitLogMinOffset"])), max(0, int(table["commitLogMaxOffset"])))
        except (KeyError, ValueError) as error:
            raise RemoteProtocolError(f"{self._address} does not tell how far its log goes") from error

    async def tables(self) -> MasterTables:
        """Raises MQError."""
        tables = MasterTables(
            topics=await self._ask(Code.GET_ALL_TOPIC_CONFIG),
            groups=await self._ask(Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG),
            offsets=await self._ask(Code.GET_ALL_CONSUMER_OFFSET),
            delay_offsets=await self._ask_if_there(Code.GET_ALL_DELAY_OFFSET),
            timer_check=await self._ask_if_there(Code.GET_TIMER_CHECK_POINT),
            timer_metrics=await self._ask_if_there(Code.GET_TIMER_METRICS),
            request_modes=await self._ask_if_there(Code.GET_ALL_MESSAGE_REQUEST_MODE),
            log_end=0,
        )
        log = await self.log()  # last: what the tables speak of lies before it
        assert log is not None
        return tables._replace(log_end=log.end)

    async def member(self) -> BrokerStatus:
        """What a broker under a failover agent says of itself. Raises MQError."""
        return _status(await self._ask(Code.QUERY_MEMBER))

    async def report(self, report: MemberReport) -> BrokerStatus:
        """Raises MQError."""
        if self._link is None:
            raise RemoteProtocolError("the master's port for clients is not known")
        body = msgspec.json.encode(report)
        response = await self._link.request(Code.REPORT_MEMBER, None, body, timeout_ms=_TIMEOUT_MS)
        if response.code != ResponseCode.SUCCESS:
            raise RemoteProtocolError(f"{self._address} does not take a report: {quoted(response.remark or '')}")
        return _status(response.body)

    async def commit(self, header: UpdateConsumerOffsetHeader) -> None:
        """Raises MQError."""
        await self._ask(Code.UPDATE_CONSUMER_OFFSET, header)

    async def _ask(self, code: Code, header: UpdateConsumerOffsetHeader | None = None) -> bytes:
        if self._link is None:
            raise RemoteProtocolError("the master's port for clients is not known")
        response = await self._link.request(code, header, timeout_ms=_TIMEOUT_MS)
        if response.code != ResponseCode.SUCCESS:
            said = quoted(response.remark or "")
            raise RemoteProtocolError(f"{self._address} answers {code.name} with code {response.code}: {said}")
        return response.body

    async def _ask_if_there(self, code: Code) -> bytes:
        try:
            return await self._ask(code)
        except RemoteProtocolError:  # nothing was ever delayed there, or it does not know the request
            return b""


def _status(body: bytes) -> BrokerStatus:
    try:
        return msgspec.json.decode(body, type=BrokerStatus)
    except msgspec.MsgspecError as error:
        raise RemoteProtocolError(f"the master does not say what it is: {error}") from error
