from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from pyromq.broker.base.settings import BrokerSettings
from pyromq.broker.registration import Registrar
from pyromq.errors import RequestTimeoutError
from pyromq.model.queue import QueueId
from pyromq.model.route import BrokerData, QueueData, TopicRoute
from pyromq.model.topic import TopicConfig
from pyromq.net.link import Link
from pyromq.net.nameserver_list import REFRESH_MS, NameServerList
from pyromq.testing import ManualClock
from pyromq.wire.codes import VERSION, RequestCode, ResponseCode
from pyromq.wire.headers.nameserver import RegisterBrokerHeader
from pyromq.wire.json.registration import body_checksum, decode_registration
from pyromq.wire.json.route import encode_route
from pyromq.wire.received import Received
from tests.unit.broker.builders import topics


@dataclass
class NamesLink:
    """A name server that answers the same to everything, or never."""

    code: int = ResponseCode.SUCCESS
    body: bytes = b""
    silent: bool = False
    asked: list[tuple[int, Any, bytes]] = field(default_factory=list)
    closed: bool = False
    ready: bool | None = True  # None while there is no connection

    async def request(self, code: int, header: Any = None, body: bytes = b"", *, timeout_ms: int) -> Received[Any]:
        self.asked.append((code, header, body))
        if self.silent:
            raise RequestTimeoutError("silent", peer="n1", code=code, timeout_ms=timeout_ms)
        return Received(code=self.code, header=None, body=self.body)

    async def close(self) -> None:
        self.closed = True


def registrar(settings: BrokerSettings, known: NameServerList | None = None, **links: NamesLink) -> Registrar:
    """Each link under its name, port 9876."""
    settings.nameservers = tuple(f"{name}:9876" for name in links)
    table, _ = topics(settings)
    return Registrar(
        table,
        settings,
        lambda name: cast(Link, links[name.removesuffix(":9876")]),
        address="10.0.0.1:10911",
        ha_address="10.0.0.1:10912",
        known=known or NameServerList(settings.nameservers, clock=ManualClock()),
    )


async def test_every_name_server_gets_everything_with_a_checksum() -> None:
    first, second = NamesLink(), NamesLink(code=ResponseCode.SYSTEM_ERROR)
    registration = registrar(BrokerSettings(), n1=first, n2=second)
    await registration.register_now()
    assert registration.registered_with == ["n1:9876"]
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


async def test_the_list_of_an_address_server_is_followed() -> None:
    clock, lists = ManualClock(), ["n1:9876;n2:9876", "n2:9876"]

    async def fetch(url: str) -> str:
        return lists.pop(0)

    first, second = NamesLink(), NamesLink()
    known = NameServerList(["http://list.example"], clock=clock, fetch=fetch)
    registration = registrar(BrokerSettings(), known, n1=first, n2=second)
    await registration.register_now()
    assert registration.registered_with == ["n1:9876", "n2:9876"]
    clock.advance_ms(REFRESH_MS)
    await registration.register_now()
    assert registration.registered_with == ["n2:9876"]
    assert [code for code, _, _ in first.asked] == [RequestCode.REGISTER_BROKER, RequestCode.UNREGISTER_BROKER]
    assert first.closed and len(second.asked) == 2


async def test_a_broker_without_a_list_is_not_registered_and_goes_on_asking(caplog: pytest.LogCaptureFixture) -> None:
    lists = ["", "", "n1:9876"]

    async def fetch(url: str) -> str:
        return lists.pop(0)

    known = NameServerList(["http://list.example"], clock=ManualClock(), fetch=fetch)
    registration = registrar(BrokerSettings(), known, n1=NamesLink())
    await registration.register_now()
    await registration.register_now()
    assert registration.registered_with == []
    assert [record.message for record in caplog.records if "knows no name server" in record.message] != []
    assert caplog.text.count("not registered, no list") == 1
    await registration.register_now()
    assert registration.registered_with == ["n1:9876"]


async def test_those_who_know_the_broker_get_what_changed_and_others_everything() -> None:
    steady, lost, new = NamesLink(), NamesLink(), NamesLink(silent=True)
    settings = BrokerSettings()
    registration = registrar(settings, n1=steady, n2=lost, n3=new)
    await registration.register_now()
    registration.topics.create("orders", queues=1)
    lost.ready, new.silent = None, False
    await registration.register_now(everything=False)
    sizes = []
    for link in (steady, lost, new):
        table = decode_registration(link.asked[-1][2], compressed=False, version=VERSION).topics
        assert table is not None and "orders" in table.topic_config_table
        sizes.append(len(table.topic_config_table))
    assert sizes[0] == 1 and sizes[1] == sizes[2] > 10
    await registration.register_now(everything=False)
    assert len(steady.asked) == 2, "nothing changed, so nothing is said"


async def test_a_name_server_that_was_started_anew_gets_everything_though_there_is_a_connection() -> None:
    """Another request asked it for a route, so the link is up again; it knows nothing of the broker."""
    link = NamesLink()
    registration = registrar(BrokerSettings(), n1=link)
    await registration.register_now()
    link.ready = False  # another connection than before
    registration.topics.create("orders", queues=1)
    await registration.register_now(everything=False)
    table = decode_registration(link.asked[-1][2], compressed=False, version=VERSION).topics
    assert table is not None and {"orders", "TBW102"} <= table.topic_config_table.keys()


async def test_whoever_waits_for_news_waits_for_the_round_that_brings_them() -> None:
    link = NamesLink()
    registration = registrar(BrokerSettings(), n1=link)
    await registration.register_now()
    registration.topics.create("orders", queues=1)
    first = asyncio.ensure_future(registration.register_now(everything=False))
    await asyncio.sleep(0)
    await registration.told()
    assert first.done() and len(link.asked) == 2, "one of them spoke, both know that it was heard"
    await registration.close()


async def test_a_name_server_that_breaks_something_keeps_no_other_from_being_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broken, sound = NamesLink(), NamesLink()
    monkeypatch.setattr(broken, "request", lambda *args, **options: 1 // 0)
    registration = registrar(BrokerSettings(), n1=broken, n2=sound)
    await registration.register_now()
    assert registration.registered_with == ["n2:9876"]


async def test_registration_goes_on_after_a_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    link = NamesLink()
    registration = registrar(BrokerSettings(), n1=link)
    monkeypatch.setattr("pyromq.broker.registration._FIRST_RETRY_S", 0)
    with monkeypatch.context() as patch:
        patch.setattr(registration, "_look_for_others", lambda: 1 // 0)
        task = asyncio.create_task(registration.run())
        for _ in range(5):
            await asyncio.sleep(0)
        assert not link.asked
    for _ in range(50):
        await asyncio.sleep(0)
    assert registration.registered_with == ["n1:9876"]
    task.cancel()


async def test_a_topic_that_name_servers_would_refuse_is_left_out_and_takes_no_other_with_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    names = NamesLink()
    broker = registrar(BrokerSettings(), n1=names)
    broker.topics.table.put(TopicConfig(topic_name="poisoned", write_queue_nums=1_000_000), 0)
    broker.topics.table.put(TopicConfig(topic_name="good"), 0)
    await broker.register_now()
    await broker.register_now()
    told = decode_registration(names.asked[-1][2], version=VERSION).topics.topic_config_table
    assert "good" in told and "poisoned" not in told
    assert [record.levelname for record in caplog.records if "poisoned" in record.getMessage()] == ["ERROR"]
