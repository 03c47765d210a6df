"""What a replica asks its master, over the port for clients: how long its log is, its tables, its offsets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from pyromq.errors import RemoteProtocolError, quoted
from pyromq.net.link import Link
from pyromq.replication.follower import MasterLog
from pyromq.replication.proofs import prove
from pyromq.security import handover
from pyromq.security.settings import InnerCredentials
from pyromq.wire.codes import RequestCode as Code
from pyromq.wire.codes import ResponseCode
from pyromq.wire.headers import Header
from pyromq.wire.headers.consumer import UpdateConsumerOffsetHeader
from pyromq.wire.json import bodies, java_json
from pyromq.wire.json.access import AccessTables
from pyromq.wire.json.membership import BrokerStatus, MemberReport

_TIMEOUT_MS: Final = 10_000
TAKES_NAMES: Final = "replicationTakesNames"  # in the run-time information of a master of ours
WANTS_PROOF: Final = "replicationWantsProof"  # likewise, with access control
_UNKNOWN: Final = "the master's port for clients is not known"


class MasterRefusedError(RemoteProtocolError):
    """The master has answered, with another code than success."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code


class MasterTables(NamedTuple):
    """The tables of a master as their files have them, and how far its log was before the first and after the last.

    An empty text: the master does not have the table. None: it is as it was.
    """

    topics: bytes | None
    groups: bytes | None
    offsets: bytes
    delay_offsets: bytes
    timer_check: bytes
    timer_metrics: bytes
    request_modes: bytes
    log_start: int
    log_end: int
    lease: int = 0  # of a master under a failover agent
    number: int = 0  # of the changes that it had made before the first table was asked for


class MasterCalls:
    """One master at a time; ``close`` at the end."""

    def __init__(self, open_link: Callable[[str], Link], inner: InnerCredentials | None = None) -> None:
        """``inner`` is what the links sign with."""
        self._open_link = open_link
        self._inner = inner
        self._link: Link | None = None
        self._address = ""
        self._is_member = False  # the master has answered as one under a failover agent

    async def at(self, address: str) -> None:
        """Which master is asked from now on."""
        if address != self._address:
            await self.close()
            self._link, self._address = self._open_link(address), address

    @property
    def address(self) -> str:
        """Address of the master that is asked; empty when there is none."""
        return self._address

    async def close(self) -> None:
        link, self._link, self._address, self._is_member = self._link, None, "", False
        if link is not None:
            await link.close()

    async def log(self) -> MasterLog | None:
        """How far the master's log goes; None when the master's port for clients is not known. Raises MQError."""
        if self._link is None:
            return None
        table = java_json.decode(await self._ask(Code.GET_BROKER_RUNTIME_INFO), bodies.KeyValues).table
        try:
            first, end = int(table["commitLogMinOffset"]), int(table["commitLogMaxOffset"])
            return MasterLog(max(0, first), max(0, end), TAKES_NAMES in table, WANTS_PROOF in table)
        except (KeyError, ValueError) as error:
            raise RemoteProtocolError(f"{self._address} does not tell how far its log goes") from error

    async def prove(self) -> bytes:
        """That this broker may have the log, with a challenge of the master. Raises MQError."""
        if self._inner is None:
            raise RemoteProtocolError(
                f"{self._address} has access control, and gives its log to replicas that prove themselves: give this "
                "broker its access.inner_credentials"
            )
        return prove(self._inner.secret_key, await self._ask(Code.GET_REPLICA_CHALLENGE))

    async def tables(self, known: tuple[int, int] = (0, 0)) -> MasterTables:
        """Fetch the master's tables, without topics and groups if its lease and number are known. Raises MQError."""
        start, lease, number = await self._log_end()  # first: a topic that its table lacks has nothing behind it
        is_new = not lease or (lease, number) != known
        tables = MasterTables(
            topics=await self._ask(Code.GET_ALL_TOPIC_CONFIG) if is_new else None,
            groups=await self._ask(Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG) if is_new else None,
            offsets=await self._ask(Code.GET_ALL_CONSUMER_OFFSET),
            delay_offsets=await self._ask_if_there(Code.GET_ALL_DELAY_OFFSET),
            timer_check=await self._ask_if_there(Code.GET_TIMER_CHECK_POINT),
            timer_metrics=await self._ask_if_there(Code.GET_TIMER_METRICS),
            request_modes=await self._ask_if_there(Code.GET_ALL_MESSAGE_REQUEST_MODE),
            log_start=start,
            log_end=0,
            lease=lease,
            number=number,
        )
        return tables._replace(log_end=(await self._log_end())[0])  # last: what the tables speak of lies before it

    async def _log_end(self) -> tuple[int, int, int]:
        """How far the master's log goes; of a member, which says so with less work, its lease and its changes."""
        if self._is_member:
            status = await self.member()
            return status.end, status.number, status.metadata
        log = await self.log()
        if log is None:
            raise RemoteProtocolError(_UNKNOWN)
        return log.end, 0, 0

    async def member(self) -> BrokerStatus:
        """What a broker under a failover agent says of itself. Raises MQError."""
        status = _status(await self._ask(Code.QUERY_MEMBER))
        self._is_member = status.managed
        return status

    async def report(self, report: MemberReport) -> BrokerStatus:
        """Report this replica to its master and return the master's status. Raises MQError."""
        if self._link is None:
            raise RemoteProtocolError("the master's port for clients is not known")
        body = msgspec.json.encode(report)
        response = await self._link.request(Code.REPORT_MEMBER, None, body, timeout_ms=_TIMEOUT_MS)
        if response.code != ResponseCode.SUCCESS:
            raise RemoteProtocolError(f"{self._address} does not take a report: {quoted(response.remark or '')}")
        return _status(response.body)

    async def users(self, known: str, inner: InnerCredentials) -> handover.Texts | None:
        """Its users; None when they are those of the known version. Raises MQError."""
        header = handover.ask(known)
        body = await self._ask(Code.GET_ACCESS_TABLES, header)
        return handover.take_over(java_json.decode(body, AccessTables), header, inner)

    async def commit(self, header: UpdateConsumerOffsetHeader) -> None:
        """Pass a committed offset on to the master. Raises MQError."""
        await self._ask(Code.UPDATE_CONSUMER_OFFSET, header)

    async def _ask(self, code: Code, header: Header | None = None) -> bytes:
        if self._link is None:
            raise RemoteProtocolError(_UNKNOWN)
        response = await self._link.request(code, header, timeout_ms=_TIMEOUT_MS)
        if response.code != ResponseCode.SUCCESS:
            said = quoted(response.remark or "")
            text = f"{self._address} answers {code.name} with code {response.code}: {said}"
            raise MasterRefusedError(text, response.code)
        return response.body

    async def _ask_if_there(self, code: Code) -> bytes:
        try:
            return await self._ask(code)
        except MasterRefusedError:  # nothing was ever delayed there, or it does not know the request
            return b""


def _status(body: bytes) -> BrokerStatus:
    try:
        return msgspec.json.decode(body, type=BrokerStatus)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise RemoteProtocolError(f"the master does not say what it is: {error}") from error
