"""A name server and brokers that answer as a test tells them: for what a healthy broker never does."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from pyromq.clock import SystemClock
from pyromq.model.route import BrokerData, QueueData, TopicRoute
from pyromq.net import Address, Connection, Handler, Server, TlsMode
from pyromq.net.tls import ServerContext
from pyromq.wire.codes import RequestCode as Code
from pyromq.wire.codes import ResponseCode
from pyromq.wire.command import encode_response
from pyromq.wire.headers.callback import PushReplyHeader
from pyromq.wire.headers.producer import SendResponseHeader
from pyromq.wire.json.route import encode_route
from pyromq.wire.received import Received

LOOPBACK = Address("127.0.0.1", 0)
SENDS = (Code.SEND_MESSAGE_V2, Code.SEND_BATCH_MESSAGE, Code.SEND_REPLY_MESSAGE_V2)
Script = Callable[[Connection, Received[Any]], int | None]


class ScriptedBroker(Handler):
    """``script(connection, request)`` gives the code to answer a send with, or None for no answer at all."""

    def __init__(self, name: str = "broker-a", script: Script | None = None) -> None:
        self.name, self.script = name, script or (lambda connection, request: 0)
        self.sends: list[Received[Any]] = []
        self.codes: list[int] = []
        self.connections: list[Connection] = []

    def on_connected(self, connection: Connection) -> None:
        self.connections.append(connection)

    def on_requests(self, connection: Connection, requests: list[Received[Any]]) -> None:
        for request in requests:
            self.codes.append(request.code)
            if request.code not in SENDS:
                connection.send(encode_response(0, request.correlation_id))
                continue
            self.sends.append(request)
            code = self.script(connection, request)
            if code is not None and not request.is_oneway:
                self.answer(connection, request, code)

    def answer(self, connection: Connection, request: Received[Any], code: int) -> None:
        header = SendResponseHeader(
            msg_id="7F00000100002A9F0000000000001000", queue_id=request.header.queue_id, queue_offset=7
        )
        remark = None if code in (0, 10, 11, 12) else f"scripted {code}"
        connection.send(encode_response(code, request.correlation_id, header, remark=remark))

    def push_reply(self, request: Received[Any], *, to: Connection) -> None:
        """What a broker does with a reply: it pushes it to whoever asked."""
        header = PushReplyHeader(
            producer_group="g",
            topic=request.header.topic,
            default_topic="TBW102",
            default_topic_queue_nums=4,
            queue_id=0,
            sys_flag=request.header.sys_flag,
            born_timestamp=1,
            flag=0,
            properties=request.header.properties,
            born_host="127.0.0.1:1",
            store_host="127.0.0.1:10911",
            store_timestamp=2,
        )
        to.request_nowait(Code.PUSH_REPLY_MESSAGE_TO_CLIENT, header, request.body, timeout_ms=1_000)


class ScriptedNameServer(Handler):
    """Knows the topics of ``routes``."""

    def __init__(self) -> None:
        self.routes: dict[str, TopicRoute] = {}
        self.asked: list[str] = []

    def on_requests(self, connection: Connection, requests: list[Received[Any]]) -> None:
        for request in requests:
            topic = request.header.topic
            self.asked.append(topic)
            if route := self.routes.get(topic):
                connection.send(encode_response(0, request.correlation_id, body=encode_route(route, strict=True)))
            else:
                code = ResponseCode.TOPIC_NOT_EXIST
                connection.send(encode_response(code, request.correlation_id, remark=f"No topic route info: {topic}"))


class ScriptedCluster:
    def __init__(self, names: ScriptedNameServer, nameserver: str, brokers: list[ScriptedBroker]) -> None:
        self.names, self.nameserver, self.brokers = names, nameserver, brokers

    @property
    def sends(self) -> int:
        return sum(len(broker.sends) for broker in self.brokers)


@asynccontextmanager
async def scripted(
    *brokers: ScriptedBroker, topics: tuple[str, ...] = ("T",), tls_context: ssl.SSLContext | None = None
) -> AsyncIterator[ScriptedCluster]:
    clock = SystemClock()
    tls = ServerContext(TlsMode.ENFORCING if tls_context else TlsMode.DISABLED, tls_context)

    def listen(handler: Handler) -> Server:
        return Server(handler, [LOOPBACK], clock=clock, tls=tls)

    async with AsyncExitStack() as stack:
        datas = []
        for broker in brokers:
            server = await stack.enter_async_context(listen(broker))
            addresses = {0: str(server.addresses[0])}
            datas.append(BrokerData(cluster="C", broker_name=broker.name, broker_addrs=addresses))
        names = ScriptedNameServer()
        for topic in topics:
            queues = [
                QueueData(broker_name=broker.name, read_queue_nums=2, write_queue_nums=2, perm=6) for broker in brokers
            ]
            names.routes[topic] = TopicRoute(broker_datas=tuple(datas), queue_datas=tuple(queues))
        server = await stack.enter_async_context(listen(names))
        yield ScriptedCluster(names, str(server.addresses[0]), list(brokers))
