"""What a client is made of, without sockets: settings, names, ids, routes, brokers, heartbeats, callbacks."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest

from pyromq.client.core.brokers import Brokers
from pyromq.client.core.callbacks import Callbacks, reply_message
from pyromq.client.core.errors import NameServersUnreachableError, TopicNotFoundError
from pyromq.client.core.identity import MessageIds, client_id, month_of
from pyromq.client.core.nameservers import NameServers
from pyromq.client.core.namespaces import unwrap, wrap
from pyromq.client.core.received_message import ReceivedMessage
from pyromq.client.core.roles import ConsumerRole, ProducerRole, Role, heartbeat_of
from pyromq.client.core.routes import Routes
from pyromq.client.core.settings import ClientSettings, Credentials, ProducerSettings, nameservers_from, tls_from
from pyromq.client.core.signing import Signer
from pyromq.client.core.tasks import TaskOwner
from pyromq.client.producer.pending_replies import PendingReplies
from pyromq.client.producer.producer import Producer
from pyromq.errors import ClientClosedError, ConfigError, ConnectFailedError, InvalidNameError
from pyromq.model.queue import QueueId
from pyromq.model.route import BrokerData, QueueData, TopicRoute
from pyromq.net import Address, TlsSettings
from pyromq.net.nameserver_list import REFRESH_MS, NameServerList
from pyromq.net.own_ip import own_ip
from pyromq.testing import ManualClock
from pyromq.wire import bodies
from pyromq.wire.codes import RequestCode as Code
from pyromq.wire.command import Command, decode_command
from pyromq.wire.frame import FrameDecoder
from pyromq.wire.headers.callback import CheckTransactionHeader, PushReplyHeader
from pyromq.wire.headers.nameserver import GetRouteHeader
from pyromq.wire.headers.shared import (
    ConsumeDirectlyHeader,
    ConsumerGroupHeader,
    ConsumerRunningInfoHeader,
    ResetOffsetHeader,
    TopicGroupHeader,
)
from pyromq.wire.heartbeat import ConsumerData, ProducerData, Subscription, decode_heartbeat, encode_heartbeat
from pyromq.wire.received import Received
from pyromq.wire.record import Draft, encode_record
from pyromq.wire.route import encode_route
from pyromq.wire.signature import verify

Q = QueueId("t", "broker-a", 0)


# --- settings, names, ids ---


def test_name_servers_come_as_text_or_several_or_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ClientSettings(nameservers="a:1; b:2").nameservers == ("a:1", "b:2")
    assert ClientSettings(nameservers=("a:1", "b:2")).nameservers == ("a:1", "b:2")
    assert nameservers_from({"NAMESRV_ADDR": "a:1", "PYROMQ_NAMESERVER": "b:2;c:3"}) == ("b:2", "c:3")
    assert nameservers_from({"NAMESRV_ADDR": "a:1"}) == ("a:1",)
    assert nameservers_from({}) == ("127.0.0.1:9876",)
    monkeypatch.setenv("PYROMQ_NAMESERVER", "d:4")
    assert ClientSettings().nameservers == ("d:4",)


@pytest.mark.parametrize(
    "fields",
    [
        {"nameservers": "nowhere"},
        {"nameservers": "a:99999"},
        {"nameservers": "ftp://a/b"},
        {"nameservers": "a:1;http://b"},
        {"instance_name": "a@b"},
        {"heartbeat_ms": 0},
        {"namespace": "a%b"},
    ],
)
def test_settings_that_cannot_work_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        ClientSettings(**fields)


def test_tls_comes_from_the_settings_or_else_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tls_from({}) is None and tls_from({"PYROMQ_TLS": "1"}) == TlsSettings()
    files = {"PYROMQ_TLS_CA": "ca.pem", "PYROMQ_TLS_CERTIFICATE": "c.pem", "PYROMQ_TLS_KEY": "k.pem"}
    switches = {"PYROMQ_TLS_CHECK_HOSTNAME": "false", "PYROMQ_TLS_HOSTNAME": "mq.example", "PYROMQ_TLS_VERIFY": "true"}
    assert tls_from(files | switches) == TlsSettings(
        ca_file=Path("ca.pem"),
        certificate_file=Path("c.pem"),
        key_file=Path("k.pem"),
        check_hostname=False,
        hostname="mq.example",
    )
    assert tls_from({**files, "PYROMQ_TLS": "false"}) is None
    with pytest.raises(ConfigError, match="PYROMQ_TLS=on: write true or false"):
        tls_from({"PYROMQ_TLS": "on"})
    assert ClientSettings().tls_settings is None
    monkeypatch.setenv("PYROMQ_TLS_CA", "ca.pem")
    assert ClientSettings().tls_settings == TlsSettings(ca_file=Path("ca.pem"))
    assert ClientSettings(tls=True).tls_settings == TlsSettings()
    without = ClientSettings(tls=False)
    assert without.tls_settings is None and replace(without, nameservers="a:1").tls_settings is None


def test_producer_settings_that_cannot_work_are_refused() -> None:
    with pytest.raises(ConfigError):
        ProducerSettings(timeout_ms=0)
    with pytest.raises(InvalidNameError):
        Producer(group="not a group")


def test_a_secret_is_not_shown() -> None:
    settings = ClientSettings(credentials=Credentials("key", "geheim", "token"))
    assert "geheim" not in repr(settings) and "token" not in repr(settings)


def test_signed_requests_can_be_verified() -> None:
    signer = Signer(Credentials("key", "geheim", "token"))
    ext = signer.signed(GetRouteHeader(topic="t"), b"body")
    assert isinstance(ext, Mapping) and ext["SecurityToken"] == "token"
    assert verify(dict(ext), b"body", "geheim")
    assert Signer(None).signed({"a": "b"}) == {"a": "b"}


@pytest.mark.parametrize(
    ("name", "wrapped"),
    [
        ("orders", "ns%orders"),
        ("ns%orders", "ns%orders"),
        ("%RETRY%g", "%RETRY%ns%g"),
        ("%DLQ%ns%g", "%DLQ%ns%g"),
        ("TBW102", "TBW102"),
        ("rmq_sys_wheel_timer", "rmq_sys_wheel_timer"),
        ("CID_RMQ_SYS_TRANS", "CID_RMQ_SYS_TRANS"),
    ],
)
def test_namespaces_are_put_on_and_taken_off(name: str, wrapped: str) -> None:
    assert wrap("ns", name) == wrapped
    assert wrap("", name) == name
    assert unwrap("ns", wrapped) == name.replace("ns%", "")


def test_a_client_id_names_address_instance_and_unit() -> None:
    assert client_id("10.0.0.1", "7#9") == "10.0.0.1@7#9"
    assert client_id("10.0.0.1", "7#9", "u") == "10.0.0.1@7#9@u"
    assert own_ip(["nowhere.example", "127.0.0.1"]) == "127.0.0.1"


def test_message_ids_are_distinct_and_restart_their_time_with_the_month() -> None:
    first = int(datetime(2026, 11, 1).astimezone().timestamp() * 1000)
    second = int(datetime(2026, 12, 1).astimezone().timestamp() * 1000)
    assert month_of(first) == month_of(second - 1) == (first, second)
    ids = MessageIds("10.0.0.1", 7, 0)
    made = [ids.next(second - 1), ids.next(second), ids.next(second + 5), ids.next(first)]
    assert len(set(made)) == 4
    assert [int(each[20:28], 16) for each in made] == [second - 1 - first, 0, 5, 0]
    assert made[0].startswith("0A000001" + "0007" + "00000000")


# --- heartbeats ---


class Consumer(ConsumerRole):
    def __init__(self, group: str) -> None:
        super().__init__(group)
        self.calls: list[Any] = []

    def heartbeat_data(self) -> ConsumerData:
        return ConsumerData(group_name=self.group, subscription_data_set=(Subscription(topic="t"),))

    def members_changed(self) -> None:
        self.calls.append("members")

    def reset_offsets(self, header: ResetOffsetHeader, offsets: Mapping[QueueId, int]) -> None:
        self.calls.append((header.topic, dict(offsets)))

    def offsets(self, topic: str) -> Mapping[QueueId, int]:
        return {Q: 5}

    def running_info(self, header: ConsumerRunningInfoHeader) -> bytes:
        return b'{"jstack":"no"}'

    async def consume_directly(self, header: ConsumeDirectlyHeader, message: ReceivedMessage) -> bytes:
        if message.body == b"bad":
            raise RuntimeError("listener failed")
        return b'{"consumeResult":"CR_SUCCESS"}'


class Sender(ProducerRole):
    def __init__(self, group: str) -> None:
        super().__init__(group)
        self.checked: list[str] = []
        self.replies = PendingReplies(Random(1))

    def check_transaction(self, message: ReceivedMessage, header: Any, connection: Any) -> None:
        self.checked.append(message.topic)

    def reply_arrived(self, message: ReceivedMessage) -> bool:
        return self.replies.arrived(message)


def test_a_heartbeat_tells_every_group_once() -> None:
    roles: list[Role] = [ProducerRole("p2"), Consumer("c"), ProducerRole("p1"), ProducerRole("p1")]
    heartbeat = heartbeat_of("id", roles)
    assert heartbeat is not None
    assert heartbeat.producer_data_set == (ProducerData(group_name="p1"), ProducerData(group_name="p2"))
    assert [data.group_name for data in heartbeat.consumer_data_set] == ["c"]
    assert decode_heartbeat(encode_heartbeat(heartbeat)) == heartbeat
    assert heartbeat_of("id", []) is None


# --- what brokers ask ---


class Peer:
    """Stands for a connection; keeps what is sent."""

    remote_text = "broker"

    def __init__(self) -> None:
        self.sent: list[Command] = []

    def send(self, frame: bytes) -> None:
        self.sent += [decode_command(each) for each in FrameDecoder().feed(frame)]


def record(body: bytes = b"x", **properties: str) -> bytes:
    raw = "".join(f"{name}\x01{value}\x02" for name, value in properties.items()).encode()
    draft = Draft(topic="t", queue_id=0, body=body, properties=raw)
    return encode_record(draft, offset=0, position=0, stored_ms=1, store_host=b"\x7f\0\0\1\0\0\x2a\x9f")


def ask(roles: list[Role], code: Code, header: Any, body: bytes = b"") -> Command:
    """The answer of a client with these roles."""

    async def main() -> Command:
        tasks, peer = TaskOwner("test"), Peer()
        callbacks = Callbacks(lambda: roles, tasks, ManualClock(), "")
        callbacks.on_requests(peer, [Received(int(code), header, 9, body=body)])  # type: ignore[arg-type]
        await tasks.drained()
        (answer,) = peer.sent
        assert answer.correlation_id == 9
        return answer

    return asyncio.run(main())


def test_consumers_are_asked_by_group() -> None:
    mine, other = Consumer("g"), Consumer("h")
    roles: list[Role] = [other, mine]
    assert ask(roles, Code.NOTIFY_CONSUMER_IDS_CHANGED, ConsumerGroupHeader(consumer_group="g")).code == 0
    header = ResetOffsetHeader(topic="t", group="g", timestamp=-1)
    ask(roles, Code.RESET_CONSUMER_CLIENT_OFFSET, header, bodies.encode(bodies.ResetOffsets(offset_table={Q: 3})))
    assert (mine.calls, other.calls) == (["members", ("t", {Q: 3})], [])
    answer = ask(roles, Code.GET_CONSUMER_STATUS_FROM_CLIENT, TopicGroupHeader(topic="t", group="g"))
    assert bodies.decode(answer.body, bodies.ClientOffsets).message_queue_table == {Q: 5}
    info = ConsumerRunningInfoHeader(consumer_group="g", client_id="c")
    assert ask(roles, Code.GET_CONSUMER_RUNNING_INFO, info).body == b'{"jstack":"no"}'
    info = ConsumerRunningInfoHeader(consumer_group="nobody", client_id="c")
    answer = ask(roles, Code.GET_CONSUMER_RUNNING_INFO, info)
    assert answer.code == 1 and "nobody in group 'nobody'" in (answer.remark or "")


def test_one_message_is_consumed_at_an_operators_wish() -> None:
    header = ConsumeDirectlyHeader(consumer_group="g", broker_name="b")
    assert ask([Consumer("g")], Code.CONSUME_MESSAGE_DIRECTLY, header, record()).body.startswith(b'{"consumeResult"')
    answer = ask([Consumer("g")], Code.CONSUME_MESSAGE_DIRECTLY, header, record(b"bad"))
    assert (answer.code, answer.remark) == (1, "RuntimeError: listener failed")
    assert ask([Consumer("g")], Code.CONSUME_MESSAGE_DIRECTLY, header, b"").code == 1


def test_a_transaction_is_checked_with_the_producer_that_began_it() -> None:
    mine, other = Sender("p"), Sender("q")
    header = CheckTransactionHeader(tran_state_table_offset=1, commit_log_offset=2)
    ask([other, mine], Code.CHECK_TRANSACTION_STATE, header, record(PGROUP="p"))
    assert (mine.checked, other.checked) == (["t"], [])


def push(correlation_id: str) -> PushReplyHeader:
    return PushReplyHeader(
        producer_group="g",
        topic="C_REPLY_TOPIC",
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=0,
        sys_flag=0,
        born_timestamp=5,
        flag=0,
        properties=f"CORRELATION_ID\x01{correlation_id}\x02",
        born_host="10.0.0.1:5",
        store_host="/10.0.0.2:10911",
        store_timestamp=6,
    )


def test_a_pushed_reply_looks_like_any_other_message() -> None:
    reply = reply_message(push("c1"), b"pong", 77)
    assert (reply.body, reply.topic, reply.born_ms, reply.stored_ms) == (b"pong", "C_REPLY_TOPIC", 5, 6)
    assert reply.properties == {"CORRELATION_ID": "c1", "ARRIVE_TIME": "77"}
    assert str(reply.born_host) == "10.0.0.1:5"


def test_a_reply_finds_whoever_asked() -> None:
    async def main() -> None:
        replies = PendingReplies(Random(1))
        (one, first), (two, second) = replies.expect(), replies.expect()
        assert one != two
        assert replies.arrived(reply_message(push(two), b"x", 1))
        assert not replies.arrived(reply_message(push(two), b"again", 1))
        assert not replies.arrived(reply_message(push("stranger"), b"x", 1))
        assert (first.done(), (await second).body) == (False, b"x")
        replies.forget(two)
        replies.close()
        with pytest.raises(ClientClosedError):
            await first

    asyncio.run(main())


# --- routes and brokers ---


def route(**addresses: str) -> TopicRoute:
    brokers = [BrokerData(cluster="C", broker_name=name, broker_addrs={0: at}) for name, at in addresses.items()]
    queues = [QueueData(broker_name=name, read_queue_nums=4, write_queue_nums=4, perm=6) for name in addresses]
    return TopicRoute(broker_datas=tuple(brokers), queue_datas=tuple(queues))


class NameService:
    """Answers when it is told to."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answers: dict[str, TopicRoute] = {}
        self.gate = asyncio.Event()
        self.changes: list[str] = []
        self.tasks = TaskOwner("test")
        self.routes = Routes(self.ask, lambda topic, _: self.changes.append(topic), self.tasks)

    async def ask(self, topic: str) -> TopicRoute:
        self.asked.append(topic)
        await self.gate.wait()
        if topic not in self.answers:
            raise TopicNotFoundError(topic)
        return self.answers[topic]


def test_many_who_ask_for_a_route_are_answered_by_one_question() -> None:
    async def main() -> None:
        service = NameService()
        service.answers["t"] = route(a="1:1")
        asking = [asyncio.ensure_future(service.routes.get("t", timeout_ms=5_000)) for _ in range(10)]
        await asyncio.sleep(0)
        asking[0].cancel()  # whoever came first may leave, the others still get their answer
        service.gate.set()
        assert {id(await each) for each in asking[1:]} == {id(service.answers["t"])}
        assert (service.asked, service.changes) == (["t"], ["t"])
        await service.routes.get("t", timeout_ms=1)
        assert service.asked == ["t"]

    asyncio.run(main())


def test_a_route_stays_known_when_it_cannot_be_renewed() -> None:
    async def main() -> None:
        service = NameService()
        service.gate.set()
        service.answers["t"] = route(a="1:1", b="2:2")
        known = await service.routes.get("t", timeout_ms=5_000)
        service.answers["t"] = route(b="2:2", a="1:1")
        await service.routes.refresh("t", timeout_ms=5_000)
        assert service.changes == ["t"]  # the same in another order is no change
        del service.answers["t"]
        with pytest.raises(TopicNotFoundError):
            await service.routes.refresh("t", timeout_ms=5_000)
        assert service.routes.known("t") == known
        service.answers["t"] = route(a="3:3")
        service.routes.refresh_soon("t")
        await service.tasks.drained()
        assert service.changes == ["t", "t"]

    asyncio.run(main())


class FakeLink:
    """Fails, or answers with a route."""

    ready = None

    def __init__(self, address: str, *, fails: bool = False) -> None:
        self.address, self.fails, self.asked = Address.parse(address), fails, 0
        self.timeouts: list[int] = []
        self.is_closed = False

    async def close(self) -> None:
        self.is_closed = True

    async def request(self, code: int, header: Any, body: bytes, *, timeout_ms: int) -> Received[Any]:
        self.asked += 1
        self.timeouts.append(timeout_ms)
        if self.fails:
            raise ConnectFailedError("refused", peer=str(self.address))
        return Received(0, {}, body=encode_route(route(a="1:1"), strict=True))


class Unshuffled(Random):
    def sample(self, population: Any, k: int, **options: Any) -> list[Any]:  # type: ignore[override]
        return list(population)[:k]


def nameservers_of(links: list[FakeLink], known: NameServerList | None = None) -> NameServers:
    clock = ManualClock()
    known = known or NameServerList([str(link.address) for link in links], clock=clock)
    by_address = {str(link.address): link for link in links}
    return NameServers(known, lambda text: by_address[text], Signer(None), clock, Unshuffled())  # type: ignore[arg-type, return-value]


def test_the_next_name_server_is_asked_when_one_fails_and_kept_from_then_on() -> None:
    async def main() -> None:
        links = [FakeLink("a:1", fails=True), FakeLink("b:2"), FakeLink("c:3")]
        servers = nameservers_of(links)
        for _ in range(3):
            assert (await servers.route("t", timeout_ms=3_000)).broker_datas
        assert [link.asked for link in links] == [1, 3, 0]
        assert links[0].timeouts == [1_000]  # a third each, so that some is left for the others
        for link in links:
            link.fails = True
        with pytest.raises(NameServersUnreachableError) as caught:
            await servers.route("t", timeout_ms=3_000)
        assert [address for address, _ in caught.value.failures] == ["b:2", "c:3", "a:1"]

    asyncio.run(main())


def test_a_changed_list_of_name_servers_is_used_by_the_client_that_runs() -> None:
    async def main() -> None:
        clock, answers = ManualClock(), ["a:1;b:2", "b:2;c:3"]

        async def fetch(url: str) -> str:
            if not answers:
                raise ConnectFailedError("down", peer=url)
            return answers.pop(0)

        links = [FakeLink("a:1"), FakeLink("b:2"), FakeLink("c:3", fails=True)]
        servers = nameservers_of(links, NameServerList(["http://list.example"], clock=clock, fetch=fetch))
        assert servers.links == ()
        assert (await servers.route("t", timeout_ms=3_000)).broker_datas, "the list is asked for when it is needed"
        assert [link.asked for link in links] == [1, 0, 0]
        clock.advance_ms(REFRESH_MS)
        await servers.refresh()
        assert [str(link.address) for link in servers.links] == ["b:2", "c:3"]
        assert servers.links[0] is links[1] and [link.is_closed for link in links] == [True, False, False]  # type: ignore[comparison-overlap]
        links[1].fails = True
        with pytest.raises(NameServersUnreachableError) as caught:
            await servers.route("t", timeout_ms=3_000)
        assert [address for address, _ in caught.value.failures] == ["b:2", "c:3"]

        nobody = nameservers_of([], NameServerList(["http://list.example"], clock=clock, fetch=fetch))
        with pytest.raises(NameServersUnreachableError, match=r"http://list\.example:8080/rocketmq/nsaddr: down"):
            await nobody.route("t", timeout_ms=3_000)

    asyncio.run(main())


def test_a_name_server_that_leaves_the_list_while_it_is_asked_is_no_failure() -> None:
    async def main() -> None:
        clock, answers = ManualClock(), ["a:1", "b:2"]

        async def fetch(url: str) -> str:
            return answers.pop(0)

        leaving, staying = FakeLink("a:1"), FakeLink("b:2")
        servers = nameservers_of([leaving, staying], NameServerList(["http://l"], clock=clock, fetch=fetch))

        async def end(*_: Any, **__: Any) -> Received[Any]:
            clock.advance_ms(REFRESH_MS)
            await servers.refresh()
            raise ClientClosedError("the link to a:1 was closed")

        leaving.request = end  # type: ignore[method-assign]
        assert (await servers.route("t", timeout_ms=3_000)).broker_datas
        assert staying.asked == 1

    asyncio.run(main())


def test_brokers_that_no_route_names_any_more_are_dropped_but_not_links_of_others() -> None:
    brokers = Brokers(FakeLink)  # type: ignore[arg-type]
    brokers.learn(route(a="1:1", b="2:2"))
    links = {address: brokers.link(address) for address in ("1:1", "2:2", "9:9")}
    assert brokers.link("1:1") is links["1:1"]
    assert brokers.addresses(masters_only=True) == ["1:1", "2:2"]
    assert brokers.forget_unrouted([route(b="2:2")]) == [links["1:1"]]
    assert (brokers.names(), brokers.address("a"), brokers.address("b")) == (["b"], None, "2:2")
    assert brokers.link("9:9") is links["9:9"]


def test_a_replica_is_readable_when_the_master_is_gone() -> None:
    brokers = Brokers(FakeLink)  # type: ignore[arg-type]
    data = BrokerData(cluster="C", broker_name="a", broker_addrs={2: "2:2", 1: "1:1"})
    brokers.learn(TopicRoute(broker_datas=(data,)))
    assert (brokers.address("a"), brokers.readable_address("a")) == (None, "1:1")
    assert brokers.addresses(masters_only=True) == []
    assert brokers.addresses(masters_only=False) == ["1:1", "2:2"]


# --- tasks ---


def test_tasks_end_with_their_owner() -> None:
    async def main() -> None:
        owner = TaskOwner("owner")
        task = owner.start(asyncio.Event().wait())
        await owner.close()
        assert task.cancelled() and not len(owner)
        with pytest.raises(ClientClosedError, match="owner was closed"):
            owner.start(asyncio.Event().wait())

    asyncio.run(main())
