"""A master as a replica sees it over a link: the tables it has, whether it knows the request for all small ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast
from unittest.mock import Mock

import msgspec

from pyromq.broker.admin.member_tables import MemberTablesHandler
from pyromq.broker.base.long_responses import finished
from pyromq.broker.base.refusals import RefusedError
from pyromq.broker.base.responses import Immediate
from pyromq.broker.replicating.master_calls import MasterCalls
from pyromq.errors import ConnectionLostError
from pyromq.net.connection import Connection
from pyromq.net.link import Link
from pyromq.store.timers.check import TimerCheck
from pyromq.wire.codes import RequestCode as Code
from pyromq.wire.codes import ResponseCode
from pyromq.wire.json.membership import SMALL_TABLES, BrokerStatus, MemberRole
from pyromq.wire.received import Received

ADDRESS = "127.0.0.1:10911"
_RUNTIME = b'{"table":{"commitLogMinOffset":"0","commitLogMaxOffset":"700"}}'


class AnsweringMaster:
    """A link that answers, and remembers what was asked. What ``tables`` lacks is refused."""

    def __init__(self, *, managed: bool = True, knows_all: bool = True) -> None:
        self.asked: list[Code] = []
        self.tables: dict[Code, bytes] = {
            Code.GET_ALL_TOPIC_CONFIG: b"{}",
            Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: b"{}",
            Code.GET_ALL_CONSUMER_OFFSET: offsets(7),
            Code.GET_ALL_DELAY_OFFSET: b'{"offsetTable":{1:10}}',
            Code.GET_TIMER_CHECK_POINT: TimerCheck(read_ms=1_000).pack(),
            Code.GET_TIMER_METRICS: b'{"timingCount":{}}',
            Code.GET_ALL_MESSAGE_REQUEST_MODE: b'{"messageRequestModeMap":{}}',
        }
        self.end, self.number, self.metadata = 900, 1, 3
        self.refusals: dict[Code, ResponseCode] = {}
        if not knows_all:
            self.refusals[Code.QUERY_MEMBER_TABLES] = ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        self.is_lost_at: Code | None = None  # the connection is lost when this is asked
        self.before: Callable[[Code], None] = lambda code: None
        self._managed = managed
        self._all = MemberTablesHandler(self.status, lambda: self.status().end)
        self._all.take({code: self._answer(code) for code in SMALL_TABLES})

    async def calls(self) -> MasterCalls:
        """What asks this master, which has said what it is."""
        calls = MasterCalls(lambda address: cast(Link, self))
        await calls.at(ADDRESS)
        await calls.member()
        self.asked.clear()
        return calls

    def status(self) -> BrokerStatus:
        return BrokerStatus(
            address=ADDRESS,
            role=MemberRole.MASTER,
            number=self.number,
            end=self.end,
            metadata=self.metadata,
            managed=self._managed,
        )

    async def request(self, code: Code, header: Any = None, body: bytes = b"", *, timeout_ms: int) -> Mock:
        self.asked.append(code)
        self.before(code)
        if code == self.is_lost_at:
            raise ConnectionLostError("the master is away")
        try:
            return Mock(code=ResponseCode.SUCCESS, body=self._body(code, body))
        except RefusedError as error:
            return Mock(code=error.code, remark=str(error))

    def _body(self, code: Code, body: bytes) -> bytes:
        if code in self.refusals:
            raise RefusedError(self.refusals[code], "no")
        match code:
            case Code.GET_BROKER_RUNTIME_INFO:
                return _RUNTIME
            case Code.QUERY_MEMBER:
                return msgspec.json.encode(self.status())
            case Code.QUERY_MEMBER_TABLES:
                request = Received(code=int(code), header=None, body=body)
                return cast(bytes, finished(self._all.query(cast(Connection, None), request)))
            case Code.UPDATE_CONSUMER_OFFSET:
                return b""
        return cast(bytes, self._answer(code)(cast(Connection, None), cast(Any, None)))

    def _answer(self, code: Code) -> Immediate:
        def answer(connection: Connection, request: Received[Any]) -> bytes:
            if code not in self.tables:
                raise RefusedError(ResponseCode.SYSTEM_ERROR, "it is not there")
            return self.tables[code]

        return answer

    async def close(self) -> None:
        """It is."""


def offsets(offset: int, *, count: int = 1) -> bytes:
    """The text of offsets of one group in that many queues."""
    queues = ",".join(f"{queue_id}:{offset}" for queue_id in range(count))
    return b'{"offsetTable":{"orders@readers":{%s}}}' % queues.encode()
