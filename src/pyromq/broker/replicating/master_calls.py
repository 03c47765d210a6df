"""What a replica asks its master, over the port for clients: how long its log is, its tables, its offsets.

    a master under a failover agent   one request for log ends and small tables that have changed
    any other, or an older one        log end ─▶ each table ─▶ log end

The texts of small tables are kept here: the master is told their digests, and those that it does not send are as they
were. A large one is asked for by itself, with a log end behind it. Topics and groups, when they have changed, are asked
for between two requests for the small tables, so that what a round takes over is asked for in one order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeVar

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
from pyromq.wire.json.membership import (
    SMALL_TABLES,
    BrokerStatus,
    MemberReport,
    TablesAnswer,
    TablesQuery,
    digest_of,
)

T = TypeVar("T")
_TIMEOUT_MS: Final = 10_000
TAKES_NAMES: Final = "replicationTakesNames"  # in the run-time information of a master of ours
WANTS_PROOF: Final = "replicationWantsProof"  # likewise, with access control
_OFFSETS: Final = Code.GET_ALL_CONSUMER_OFFSET  # every master has them; other small tables may be missing
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
        self._is_older = False  # the master does not know the request for all small tables
        self._texts: dict[int, tuple[bytes, str]] = {}  # small tables with their digests, as they came last

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
        link, self._link, self._address = self._link, None, ""
        self._is_member = self._is_older = False
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
        if self._is_member and not self._is_older:
            tables = await self._tables_at_once(known)
            if tables is not None:
                return tables
        return await self._tables_one_by_one(known)

    async def _tables_at_once(self, known: tuple[int, int]) -> MasterTables | None:
        """None when the master refuses the request for all small tables."""
        first = await self._changed()
        if first is None:
            return None
        topics, groups = await self._topics_and_groups(first.number, first.metadata, known)
        last = first if topics is None else await self._changed()
        if last is None:
            return None
        apart = [code for code in SMALL_TABLES if code in last.apart or code not in self._texts]
        for code in apart:
            self._keep(code, await self._small_table(code))
        return _tables(
            topics,
            groups,
            {code: self._texts[code][0] for code in SMALL_TABLES},
            log_start=first.start,
            log_end=(await self._log_end())[0] if apart else last.end,
            lease=first.number,
            number=first.metadata,
        )

    async def _tables_one_by_one(self, known: tuple[int, int]) -> MasterTables:
        start, lease, number = await self._log_end()  # first: a topic that its table lacks has nothing behind it
        topics, groups = await self._topics_and_groups(lease, number, known)
        texts = {code: await self._small_table(code) for code in SMALL_TABLES}
        end, _, _ = await self._log_end()  # last: what the tables speak of lies before it
        return _tables(topics, groups, texts, log_start=start, log_end=end, lease=lease, number=number)

    async def _topics_and_groups(
        self, lease: int, number: int, known: tuple[int, int]
    ) -> tuple[bytes, bytes] | tuple[None, None]:
        if lease and (lease, number) == known:
            return None, None
        return await self._ask(Code.GET_ALL_TOPIC_CONFIG), await self._ask(Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)

    async def _changed(self) -> TablesAnswer | None:
        """Ask for small tables that are others than here, and keep them; None when the master refuses."""
        query = TablesQuery(
            digests={code: self._texts[code][1] if code in self._texts else "" for code in SMALL_TABLES}
        )
        try:
            body = await self._ask(Code.QUERY_MEMBER_TABLES, body=msgspec.json.encode(query))
        except MasterRefusedError as error:
            self._is_older = error.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
            return None
        answer = _decoded(body, TablesAnswer)
        self._is_member = answer.managed
        for code in SMALL_TABLES:
            if (text := answer.texts.get(code)) is not None:
                self._keep(code, text)
        return answer

    def _keep(self, code: int, text: bytes) -> None:
        self._texts[code] = text, digest_of(text)

    async def _small_table(self, code: Code) -> bytes:
        """Empty when the master does not have it."""
        try:
            return await self._ask(code)
        except MasterRefusedError:
            if code == _OFFSETS:
                raise
            return b""  # nothing was ever delayed there, or it does not know the request

    async def _log_end(self) -> tuple[int, int, int]:
        """How far the master's log goes; of a member, which says so with less work, its lease and its changes."""
        if self._is_member:
            status = await self._status()
            return status.end, status.number, status.metadata
        log = await self.log()
        if log is None:
            raise RemoteProtocolError(_UNKNOWN)
        return log.end, 0, 0

    async def member(self) -> BrokerStatus:
        """What a broker under a failover agent says of itself, before it is followed. Raises MQError."""
        self._is_older = False  # it may have been started anew
        return await self._status()

    async def _status(self) -> BrokerStatus:
        status = _decoded(await self._ask(Code.QUERY_MEMBER), BrokerStatus)
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
        return _decoded(response.body, BrokerStatus)

    async def users(self, known: str, inner: InnerCredentials) -> handover.Texts | None:
        """Its users; None when they are those of the known version. Raises MQError."""
        header = handover.ask(known)
        body = await self._ask(Code.GET_ACCESS_TABLES, header)
        return handover.take_over(java_json.decode(body, AccessTables), header, inner)

    async def commit(self, header: UpdateConsumerOffsetHeader) -> None:
        """Pass a committed offset on to the master. Raises MQError."""
        await self._ask(Code.UPDATE_CONSUMER_OFFSET, header)

    async def _ask(self, code: Code, header: Header | None = None, body: bytes = b"") -> bytes:
        if self._link is None:
            raise RemoteProtocolError(_UNKNOWN)
        response = await self._link.request(code, header, body, timeout_ms=_TIMEOUT_MS)
        if response.code != ResponseCode.SUCCESS:
            said = quoted(response.remark or "")
            text = f"{self._address} answers {code.name} with code {response.code}: {said}"
            raise MasterRefusedError(text, response.code)
        return response.body


def _tables(topics: bytes | None, groups: bytes | None, small: Mapping[Code, bytes], **ends: int) -> MasterTables:
    return MasterTables(
        topics=topics,
        groups=groups,
        offsets=small[_OFFSETS],
        delay_offsets=small[Code.GET_ALL_DELAY_OFFSET],
        timer_check=small[Code.GET_TIMER_CHECK_POINT],
        timer_metrics=small[Code.GET_TIMER_METRICS],
        request_modes=small[Code.GET_ALL_MESSAGE_REQUEST_MODE],
        **ends,
    )


def _decoded(body: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise RemoteProtocolError(f"the master does not say what it is: {error}") from error
