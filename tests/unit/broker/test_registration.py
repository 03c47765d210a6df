from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from pyromq.broker.base.settings import BrokerSettings
from pyromq.broker.registration import TOPICS_PER_PART, Registrar
from pyromq.errors import RequestTimeoutError
from pyromq.model.queue import QueueId
from pyromq.model.route import BrokerData, QueueData, TopicRoute
from pyromq.model.topic import TopicConfig
from pyromq.nameserver.service import NameServerService
from pyromq.nameserver.settings import NameServerSettings
from pyromq.net.link import Link
from pyromq.net.nameserver_list import REFRESH_MS, NameServerList
from pyromq.testing import ManualClock
from pyromq.wire.codes import VERSION, RequestCode, ResponseCode
from pyromq.wire.command import encode_request
from pyromq.wire.frame import FrameDecoder
from pyromq.wire.headers.nameserver import RegisterBrokerHeader
from pyromq.wire.json.registration import body_checksum, decode_registration
from pyromq.wire.json.route import encode_route
from pyromq.wire.received import Received, decode_received
from tests.unit.broker.builders import topics


@dataclass(eq=False)
class NamesConnection:
    callbacks: list[Callable[[Any], None]] = field(default_factory=list)

    def call_when_closed(self, callback: Callable[[Any], None]) -> None:
        self.callbacks.append(callback)

    def end(self) -> None:
        for callback in self.callbacks:
            callback(self)


@dataclass
class NamesLink:
    """A name server that answers the same to everything, or never."""

    code: int = ResponseCode.SUCCESS
    body: bytes = b""
    silent: bool = False
    asked: list[tuple[int, Any, bytes]] = field(default_factory=list)
    closed: bool = False
    ready: NamesConnection | None = field(default_factory=NamesConnection)  # None while there is no connection

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
    assert first.closed and [code for code, _, _ in second.asked].count(RequestCode.REGISTER_BROKER) == 2


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
    link.ready = NamesConnection()  # another connection than before
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


async def test_a_name_server_whose_connection_ended_hears_of_the_broker_again_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It may have been restarted: until the broker registers, clients find no route."""
    monkeypatch.setattr("pyromq.broker.registration._FIRST_RETRY_S", 0)
    link = NamesLink()
    before = link.ready
    assert before is not None
    registration = registrar(BrokerSettings(register_interval_ms=3_600_000), n1=link)

    def registrations() -> list[bytes]:
        return [body for code, _, body in link.asked if code == RequestCode.REGISTER_BROKER]

    task = asyncio.create_task(registration.run())
    for _ in range(50):
        await asyncio.sleep(0)
    await registration.register_now()
    assert len(registrations()) == 2 and len(before.callbacks) == 1, "a connection is watched once"
    link.ready = NamesConnection()
    before.end()
    for _ in range(50):
        await asyncio.sleep(0)
    table = decode_registration(registrations()[-1], compressed=False, version=VERSION).topics
    assert len(registrations()) == 3 and table is not None and "TBW102" in table.topic_config_table
    assert len(link.ready.callbacks) == 1
    task.cancel()


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


# --- the name of this broker belongs to somebody else ----------------------------------------------------------------


class RealNames:
    """A link to a real name server's service, without sockets; ``link`` names a connection to it."""

    def __init__(self, service: NameServerService, link: str) -> None:
        self.ready = NamesConnection()
        self._link = link
        self._service = service
        self.parts = 0  # of registrations

    async def request(self, code: int, header: Any = None, body: bytes = b"", *, timeout_ms: int) -> Received[Any]:
        (frame,) = FrameDecoder().feed(encode_request(code, 1, header, body=body))
        self.parts += code == RequestCode.REGISTER_BROKER
        data = self._service.handle(decode_received(frame), self._link)
        assert data is not None
        return decode_received(FrameDecoder().feed(data)[0])

    async def close(self) -> None:
        return


def real_registrar(service: NameServerService, address: str, link: str) -> tuple[Registrar, RealNames]:
    settings = BrokerSettings(nameservers=("n1:9876",))
    table, _ = topics(settings)
    names = RealNames(service, link)
    registrar_ = Registrar(
        table,
        settings,
        lambda name: cast(Link, names),
        address=address,
        ha_address=address,
        known=NameServerList(settings.nameservers, clock=ManualClock()),
    )
    return registrar_, names


def holder(service: NameServerService) -> str | None:
    route = service._state.table.route("broker-a")
    assert route is not None
    broker = route.broker("broker-a")
    assert broker is not None
    return broker.master_addr


@pytest.mark.parametrize("state_version", [0, 7, (1 << 63) - 1])
async def test_a_broker_wins_its_name_back_and_says_so(state_version: int, caplog: pytest.LogCaptureFixture) -> None:
    service = NameServerService(NameServerSettings(), clock=ManualClock())
    broker, _ = real_registrar(service, "10.0.0.1:10911", "broker")
    thief, _ = real_registrar(service, "10.6.6.6:10911", "thief")
    await broker.register_now()
    for times in (1, 2, 3):
        thief.name_watch.state_version = max(state_version, broker.name_watch.state_version)
        await thief._send("n1:9876", cast(Link, thief._links["n1:9876"]), None)
        assert holder(service) == "10.6.6.6:10911"
        caplog.clear()
        await broker.register_now()
        assert holder(service) == "10.0.0.1:10911"
        assert broker.name_watch.report() == {"nameTaken": times, "nameTakenBy": "10.6.6.6:10911"}
        (record,) = [record for record in caplog.records if record.levelname == "ERROR"]
        assert "another process is registered under the name of this broker" in record.getMessage()
    await broker.register_now()
    assert broker.name_watch.taken == 3 and broker.registered_with == ["n1:9876"]


async def test_a_broker_whose_name_was_taken_before_it_came_wins_it_at_once() -> None:
    service = NameServerService(NameServerSettings(), clock=ManualClock())
    thief, _ = real_registrar(service, "10.6.6.6:10911", "thief")
    thief.name_watch.state_version = 1 << 60
    await thief.register_now()
    broker, _ = real_registrar(service, "10.0.0.1:10911", "broker")
    await broker.register_now()
    assert holder(service) == "10.0.0.1:10911" and broker.registered_with == ["n1:9876"]


# --- many topics -----------------------------------------------------------------------------------------------------


async def test_many_topics_are_registered_in_parts_and_changes_of_all_of_them_arrive() -> None:
    service = NameServerService(NameServerSettings(), clock=ManualClock())
    broker, names = real_registrar(service, "10.0.0.1:10911", "broker")
    count = 2 * TOPICS_PER_PART + 1
    for number in range(count):
        broker.topics.create(f"t{number}", queues=4)
    await broker.register_now()
    assert names.parts == 3

    def queues(topic: str) -> int:
        route = service._state.table.route(topic)
        assert route is not None
        return route.queue_datas[0].read_queue_nums

    assert {queues(f"t{number}") for number in range(count)} == {4}
    for number in (0, TOPICS_PER_PART, count - 1):
        broker.topics.update(TopicConfig(topic_name=f"t{number}", read_queue_nums=8, write_queue_nums=8))
    await broker.register_now()
    assert [queues(f"t{number}") for number in (0, TOPICS_PER_PART, count - 1)] == [8, 8, 8]
    service._state.table.wipe_write_perm("broker-a")
    await broker.register_now()
    route = service._state.table.route("t7")
    assert route is not None and not route.queue_datas[0].writable, "what an operator did lasts until something changes"


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


async def test_a_stop_that_comes_together_with_news_ends_the_rounds() -> None:
    known = registrar(BrokerSettings(nameservers=("a:1",)), **{"a:1": NamesLink()})
    for ticks in range(4):  # the two may meet anywhere between two loop iterations
        rounds = asyncio.ensure_future(known.run())
        for _ in range(50):
            await asyncio.sleep(0)
        known.topics_changed()
        for _ in range(ticks):
            await asyncio.sleep(0)
        rounds.cancel()
        for _ in range(50):
            await asyncio.sleep(0)
        assert rounds.done(), f"the cancellation was lost, {ticks} turns after the news"
