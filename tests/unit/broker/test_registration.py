from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from pyromq.broker.registration import Registrar
from pyromq.broker.settings import BrokerSettings
from pyromq.errors import RequestTimeoutError
from pyromq.model.queue import QueueId
from pyromq.model.route import BrokerData, QueueData, TopicRoute
from pyromq.net.link import Link
from pyromq.wire.codes import VERSION, RequestCode, ResponseCode
from pyromq.wire.headers.nameserver import RegisterBrokerHeader
from pyromq.wire.received import Received
from pyromq.wire.registration import body_checksum, decode_registration
from pyromq.wire.route import encode_route
from tests.unit.broker.builders import topics


@dataclass
class NamesLink:
    """A name server that answers the same to everything, or never."""

    code: int = ResponseCode.SUCCESS
    body: bytes = b""
    silent: bool = False
    asked: list[tuple[int, Any, bytes]] = field(default_factory=list)
    closed: bool = False

    async def request(self, code: int, header: Any = None, body: bytes = b"", *, timeout_ms: int) -> Received[Any]:
        self.asked.append((code, header, body))
        if self.silent:
            raise RequestTimeoutError("nobody there", peer="n1", code=code, timeout_ms=timeout_ms)
        return Received(code=self.code, header=None, body=self.body)

    async def close(self) -> None:
        self.closed = True


def registrar(settings: BrokerSettings, **links: NamesLink) -> Registrar:
    settings.nameservers = tuple(links)
    table, _ = topics(settings)
    return Registrar(
        table, settings, lambda name: cast(Link, links[name]), address="10.0.0.1:10911", ha_address="10.0.0.1:10912"
    )


async def test_every_name_server_gets_everything_with_a_checksum() -> None:
    first, second = NamesLink(), NamesLink(code=ResponseCode.SYSTEM_ERROR)
    registration = registrar(BrokerSettings(), n1=first, n2=second)
    await registration.register_now()
    assert registration.registered_with == ["n1"]
    for link in (first, second):
        ((code, header, body),) = link.asked
        assert code == RequestCode.REGISTER_BROKER and isinstance(header, RegisterBrokerHeader)
        assert (header.broker_name, header.broker_addr, header.broker_id) == ("broker-a", "10.0.0.1:10911", 0)
        assert header.body_crc32 == body_checksum(body)
        table = decode_registration(body, compressed=False, version=VERSION).topics
        assert table is not None
        assert table.data_version.counter > 0 and table.topic_config_table["TBW102"].perm == 7


async def test_topics_are_registered_with_what_the_broker_itself_permits() -> None:
    link = NamesLink()
    registration = registrar(BrokerSettings(permission=4), n1=link)
    await registration.register_now()
    table = decode_registration(link.asked[0][2], compressed=False, version=VERSION).topics
    assert table is not None
    assert table.topic_config_table["BenchmarkTest"].perm == 4
    assert table.topic_config_table["TBW102"].perm == 5, "inheriting is no business of clients"


async def test_leaving_is_told_to_those_who_know_of_the_broker() -> None:
    known, unknown = NamesLink(), NamesLink(silent=True)
    registration = registrar(BrokerSettings(), n1=known, n2=unknown)
    await registration.register_now()
    await registration.close()
    assert [code for code, _, _ in known.asked] == [RequestCode.REGISTER_BROKER, RequestCode.UNREGISTER_BROKER]
    assert [code for code, _, _ in unknown.asked] == [RequestCode.REGISTER_BROKER]
    assert known.closed and unknown.closed


async def test_queues_of_all_brokers_come_from_the_first_name_server_that_answers() -> None:
    route = TopicRoute(
        broker_datas=(BrokerData(cluster="c", broker_name="b", broker_addrs={0: "10.0.0.2:10911"}),),
        queue_datas=(QueueData(broker_name="b", read_queue_nums=2, write_queue_nums=2, perm=6),),
    )
    registration = registrar(BrokerSettings(), n1=NamesLink(silent=True), n2=NamesLink(body=encode_route(route)))
    assert await registration.find_queues("orders") == [QueueId("orders", "b", 0), QueueId("orders", "b", 1)]
    unknown = registrar(BrokerSettings(), n1=NamesLink(code=ResponseCode.TOPIC_NOT_EXIST))
    assert await unknown.find_queues("orders") is None
    with pytest.raises(RequestTimeoutError):
        await registrar(BrokerSettings(), n1=NamesLink(silent=True)).find_queues("orders")
