"""A broker whose queues, locks and answers a test holds in its hands: for what a healthy broker rarely does."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from pyromq.client.core.received_message import split_messages
from pyromq.clock import SystemClock
from pyromq.model.queue import QueueId
from pyromq.model.route import BrokerData, QueueData, TopicRoute
from pyromq.net import Connection, Handler, Server
from pyromq.wire.codes import RequestCode as Code
from pyromq.wire.codes import ResponseCode
from pyromq.wire.command import Ext, encode_response
from pyromq.wire.headers.consumer import HeartbeatResponseHeader, OffsetResponseHeader, PullResponseHeader
from pyromq.wire.headers.producer import SendResponseHeader
from pyromq.wire.json import bodies
from pyromq.wire.json.heartbeat import decode_heartbeat
from pyromq.wire.properties import encode_properties
from pyromq.wire.received import Received
from pyromq.wire.record import Draft, encode_record
from tests.integration.scripted_broker import LOOPBACK, ScriptedNameServer

NAME = "broker-a"
HOST = bytes((127, 0, 0, 1, 0, 0, 0x2A, 0x9F))
PULLED_MAX = 32

Asked = tuple[Connection, Received[Any]]


class ScriptedQueues(Handler):
    """``codes`` says what to answer a request code with, None for no answer; anything not in it succeeds."""

    def __init__(self, group: str) -> None:
        self.group = group
        self.codes: dict[int, int | None] = {}
        self.asked: dict[int, list[Asked]] = defaultdict(list)
        self.committed: dict[QueueId, int] = defaultdict(int)
        self.commits: dict[QueueId, list[int]] = defaultdict(list)  # all of them, in order
        self.locks: dict[QueueId, str] = {}  # who has what
        self.members: dict[str, Connection] = {}
        self.moved_to: dict[QueueId, int] = {}  # the next pull is told to go on there
        self._records: dict[QueueId, list[bytes]] = defaultdict(list)
        self._held: dict[QueueId, list[Asked]] = defaultdict(list)
        self._was_cut: set[QueueId] = set()
        self._position = 1_000
        self.nameserver = ""
        self._serve: dict[int, Callable[[Connection, Received[Any]], None]] = {
            Code.HEART_BEAT: self._heartbeat,
            Code.UNREGISTER_CLIENT: self._unregister,
            Code.GET_CONSUMER_LIST_BY_GROUP: self._list_members,
            Code.QUERY_CONSUMER_OFFSET: self._stored_offset,
            Code.UPDATE_CONSUMER_OFFSET: self._commit,
            Code.LOCK_BATCH_MQ: self._lock,
            Code.UNLOCK_BATCH_MQ: self._unlock,
            Code.PULL_MESSAGE: self._pull,
            Code.SEARCH_OFFSET_BY_TIMESTAMP: self._search,
            Code.SEND_MESSAGE_V2: self._send,
        }

    # --- what a test does ---

    def put(
        self,
        body: bytes,
        *,
        topic: str = "T",
        queue: int = 0,
        attempt: int = 0,
        unique_id: str = "",
        properties: Mapping[str, str] | None = None,
        sys_flag: int = 0,
        stored_ms: int = 1_000,
    ) -> int:
        """One more message, with ``ID-<body>`` as its id; returns its position in the log."""
        place = QueueId(topic, NAME, queue)
        all_properties = {"UNIQ_KEY": unique_id or f"ID-{body.decode()}", **(properties or {})}
        draft = Draft(
            topic=topic,
            queue_id=queue,
            body=body,
            properties=encode_properties(all_properties),
            sys_flag=sys_flag,
            delivery_attempt=attempt,
        )
        self._position += 1_000
        self._records[place].append(
            encode_record(
                draft, offset=len(self._records[place]), position=self._position, stored_ms=stored_ms, store_host=HOST
            )
        )
        self._wake(place)
        return self._position

    def cut(self, queue: QueueId, count: int) -> None:
        """The queue loses its last messages, as after a power failure; pulls that are held get no answer."""
        self._was_cut.add(queue)
        del self._records[queue][-count:]
        self._held.pop(queue, None)

    def _wake(self, queue: QueueId) -> None:
        for held in self._held.pop(queue, []):
            self._pull(*held)

    def headers(self, code: int) -> list[Any]:
        return [request.header for _, request in self.asked[code]]

    def answer(self, asked: Asked, code: int = 0, header: Ext = None, body: bytes = b"") -> None:
        connection, request = asked
        if not request.is_oneway:
            remark = None if code in (0, 19, 21) else f"scripted {code}"
            connection.send(encode_response(code, request.correlation_id, header, body=body, remark=remark))

    def reset(self, group: str, offsets: dict[QueueId, int]) -> None:
        """What a broker does that is told to reset a group through its clients (220)."""
        for queue, offset in offsets.items():
            self.committed[queue] = offset
        fields = {"topic": "T", "group": group, "timestamp": "0", "isForce": "true"}
        body = bodies.encode(bodies.ResetOffsets(offset_table=offsets))
        for connection in self.members.values():
            connection.request_oneway(Code.RESET_CONSUMER_CLIENT_OFFSET, fields, body)

    # --- what clients ask ---

    def on_requests(self, connection: Connection, requests: list[Received[Any]]) -> None:
        for request in requests:
            asked = (connection, request)
            self.asked[request.code].append(asked)
            code = self.codes.get(request.code, 0)
            if code is None:
                continue
            if not code and (serve := self._serve.get(request.code)):
                serve(connection, request)
            else:
                self.answer(asked, code)

    def _heartbeat(self, connection: Connection, request: Received[Any]) -> None:
        heartbeat = decode_heartbeat(request.body)
        if heartbeat.consumer_data_set:
            self.members[heartbeat.client_id] = connection
        self.answer((connection, request), header=HeartbeatResponseHeader(takes_stories=True))

    def _unregister(self, connection: Connection, request: Received[Any]) -> None:
        self.members.pop(request.header.client_id, None)
        self.answer((connection, request))

    def _list_members(self, connection: Connection, request: Received[Any]) -> None:
        body = bodies.encode(bodies.GroupMemberIds(consumer_id_list=sorted(self.members)))
        self.answer((connection, request), body=body)

    def _stored_offset(self, connection: Connection, request: Received[Any]) -> None:
        header = request.header
        offset = self.committed[QueueId(header.topic, NAME, header.queue_id)]
        self.answer((connection, request), 0, OffsetResponseHeader(offset=offset))

    def _commit(self, connection: Connection, request: Received[Any]) -> None:
        header = request.header
        self._note_commit(QueueId(header.topic, NAME, header.queue_id), header.commit_offset)
        self.answer((connection, request))

    def _note_commit(self, queue: QueueId, offset: int) -> None:
        self.committed[queue] = offset
        self.commits[queue].append(offset)

    def _lock(self, connection: Connection, request: Received[Any]) -> None:
        wanted = bodies.decode(request.body, bodies.LockRequest)
        granted = [queue for queue in wanted.mq_set if self.locks.get(queue, wanted.client_id) == wanted.client_id]
        self.locks.update(dict.fromkeys(granted, wanted.client_id))
        self.answer((connection, request), body=bodies.encode(bodies.LockResponse(granted=tuple(granted))))

    def _unlock(self, connection: Connection, request: Received[Any]) -> None:
        given = bodies.decode(request.body, bodies.LockRequest)
        for queue in given.mq_set:
            if self.locks.get(queue) == given.client_id:
                del self.locks[queue]
        self.answer((connection, request))

    def _pull(self, connection: Connection, request: Received[Any]) -> None:
        header = request.header
        queue = QueueId(header.topic, NAME, header.queue_id)
        if header.sys_flag & 1:
            self._note_commit(queue, header.commit_offset)
        records, offset = self._records[queue], header.queue_offset
        if queue in self.moved_to:
            offset = self.moved_to.pop(queue)
            self.answer((connection, request), ResponseCode.PULL_OFFSET_MOVED, _where(offset, len(records)))
        elif queue in self._was_cut and offset > len(records):
            self.answer((connection, request), ResponseCode.PULL_OFFSET_MOVED, _where(len(records), len(records)))
        elif found := records[offset : offset + PULLED_MAX]:
            self.answer((connection, request), 0, _where(offset + len(found), len(records)), b"".join(found))
        else:
            self._held[queue].append((connection, request))

    def _search(self, connection: Connection, request: Received[Any]) -> None:
        header = request.header
        records = self._records[QueueId(header.topic, NAME, header.queue_id)]
        stored = [split_messages(record, NAME)[0].stored_ms for record in records]
        found = bisect_left(stored, header.timestamp)
        self.answer((connection, request), 0, OffsetResponseHeader(offset=found))

    def _send(self, connection: Connection, request: Received[Any]) -> None:
        header = SendResponseHeader(msg_id="7F00000100002A9F0000000000001000", queue_id=0, queue_offset=7)
        self.answer((connection, request), 0, header)


def _where(next_offset: int, end: int) -> PullResponseHeader:
    return PullResponseHeader(suggest_which_broker_id=0, next_begin_offset=next_offset, min_offset=0, max_offset=end)


@asynccontextmanager
async def scripted_queues(group: str, *, queues: int = 1) -> AsyncIterator[ScriptedQueues]:
    """Topic ``T`` and the retry topic of a group."""
    clock, broker, names = SystemClock(), ScriptedQueues(group), ScriptedNameServer()
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(Server(broker, [LOOPBACK], clock=clock))
        data = BrokerData(cluster="C", broker_name=NAME, broker_addrs={0: str(server.addresses[0])})
        for topic, count in (("T", queues), (f"%RETRY%{group}", 1)):
            queue = QueueData(broker_name=NAME, read_queue_nums=count, write_queue_nums=count, perm=6)
            names.routes[topic] = TopicRoute(broker_datas=(data,), queue_datas=(queue,))
        broker.nameserver = str((await stack.enter_async_context(Server(names, [LOOPBACK], clock=clock))).addresses[0])
        yield broker
