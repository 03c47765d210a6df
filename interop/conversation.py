"""One long conversation with a name server and a broker in bare requests: the same for every server.

``hold_conversation`` asks everything and notes every answer under a name, decoded with PyroMQ's types; what did not
decode is noted too. Two servers that note the same are the same to a client.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from interop.asking import connected
from pyromq.errors import MQError
from pyromq.model.queue import QueueId
from pyromq.model.topic import DataVersion, GroupConfig, TopicConfig
from pyromq.net import Connection, Handler
from pyromq.wire.batch import BatchItem, encode_batch
from pyromq.wire.codes import VERSION, RequestCode
from pyromq.wire.flags import PullFlag
from pyromq.wire.frame import SerializeType
from pyromq.wire.headers import RESPONSE_HEADERS, Header, admin, consumer, nameserver, shared
from pyromq.wire.headers.producer import SendHeader, SendV2Header
from pyromq.wire.json import bodies, java_json
from pyromq.wire.json.heartbeat import (
    CheckClient,
    ConsumerData,
    Heartbeat,
    ProducerData,
    Subscription,
    decode_consumer_connections,
    encode_heartbeat,
)
from pyromq.wire.json.registration import (
    BrokerRegistration,
    RegisteredTopics,
    body_checksum,
    decode_topic_table,
    encode_registration,
)
from pyromq.wire.json.route import decode_cluster, decode_route, decode_topics
from pyromq.wire.message_id import decode_offset_id
from pyromq.wire.received import Received
from pyromq.wire.record import split_records

TIMEOUT_MS: Final = 8_000
_DISPATCH_S: Final = 0.3  # Apache's broker acknowledges before a message can be pulled
TOPIC: Final = "InteropTopic"
GROUP: Final = "interop-group"
CLIENT: Final = "127.0.0.1@interop"
BORN_MS: Final = 1_700_000_000_000

Decode = Callable[[bytes], Any]


@dataclass(slots=True)
class Exchange:
    """One question and what came of it."""

    name: str
    code: int = -1
    remark: str | None = None
    ext: dict[str, str] = field(default_factory=dict)
    header: Header | None = None
    body: Any = None
    raw: bytes = b""
    version: int = 0
    failure: str = ""  # why a response did not come or did not decode
    took_ms: int = 0


class Notes(Handler):
    """What was answered, and what the server asked of us."""

    def __init__(self) -> None:
        self.exchanges: dict[str, Exchange] = {}
        self.asked: list[Received[Any]] = []

    def on_requests(self, connection: Connection, requests: list[Received[Any]]) -> None:
        self.asked += requests

    async def ask(
        self,
        name: str,
        connection: Connection,
        code: int,
        header: Any = None,
        body: bytes = b"",
        *,
        decode: Decode | None = None,
    ) -> Exchange:
        exchange = self.exchanges[name] = Exchange(name)
        started = time.monotonic()
        try:
            response = await connection.request(code, header, body, timeout_ms=TIMEOUT_MS)
        except MQError as error:
            exchange.failure = f"{type(error).__name__}: {error}"
            return exchange
        exchange.took_ms = int((time.monotonic() - started) * 1000)
        exchange.code, exchange.remark, exchange.raw = response.code, response.remark, response.body
        exchange.version, exchange.ext = response.version, response.ext()
        try:
            self._decode(exchange, response, code, decode)
        except MQError as error:
            exchange.failure = f"{type(error).__name__}: {error}"
        return exchange

    @staticmethod
    def _decode(exchange: Exchange, response: Received[Any], code: int, decode: Decode | None) -> None:
        header_type = RESPONSE_HEADERS.get(code)  # type: ignore[call-overload]
        if header_type is not None and (response.code == 0 or (exchange.ext and code in _PULLS)):
            exchange.header = response.header_as(header_type)
        if response.body and decode is not None and response.code == 0:
            exchange.body = decode(response.body)
        elif response.body:
            exchange.body = response.body


_PULLS: Final = (RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE)


def _body(type_: Any) -> Decode:
    return lambda data: bodies.decode(data, type_)


def _json(type_: Any) -> Decode:
    return lambda data: java_json.decode(data, type_)


def _plain(data: bytes) -> Any:
    return java_json.parse(data)


def _lines(data: bytes) -> dict[str, str]:
    return dict(line.split("=", 1) for line in data.decode().splitlines() if "=" in line)


async def hold_conversation(nameserver_address: str, broker_address: str) -> dict[str, Exchange]:
    """Everything, in order."""
    notes = Notes()
    async with connected(nameserver_address) as names, connected(broker_address, handler=notes) as broker:
        await _ask_names(notes, names)
        await _register(notes, names)
        await _make_topics(notes, broker, names)
        await _send(notes, broker)
        await _pull(notes, broker, broker_address)
        await _members(notes, broker, broker_address)
        await _offsets(notes, broker)
        await _look_up(notes, broker)
        await _administer(notes, broker)
        await _remove(notes, broker, names)
    async with connected(broker_address, serialize_type=SerializeType.ROCKETMQ) as broker:
        await notes.ask("binary header: send V2", broker, 310, send_header(queue_id=3), b"binary")
        await asyncio.sleep(_DISPATCH_S)
        await notes.ask("binary header: pull", broker, 11, pull_header(0, queue_id=3), decode=split_records)
        await notes.ask("binary header: unknown request", broker, 999)
    return notes.exchanges


# --- name server ---------------------------------------------------------------------------------------------------


async def _ask_names(notes: Notes, names: Connection) -> None:
    code, ask = RequestCode, notes.ask
    await ask("cluster info", names, code.GET_BROKER_CLUSTER_INFO, decode=decode_cluster)
    route = nameserver.GetRouteHeader
    await ask("route", names, code.GET_ROUTEINFO_BY_TOPIC, route(topic="TBW102"), decode=decode_route)
    strict = route(topic="TBW102", accept_standard_json_only=True)
    await ask("route, strict JSON", names, code.GET_ROUTEINFO_BY_TOPIC, strict, decode=decode_route)
    await ask("route of an unknown topic", names, code.GET_ROUTEINFO_BY_TOPIC, route(topic="nowhere"))
    await ask("route without topic", names, code.GET_ROUTEINFO_BY_TOPIC)
    await ask("all topics", names, code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, decode=decode_topics)
    await ask("system topics of name server", names, code.GET_SYSTEM_TOPIC_LIST_FROM_NS, decode=decode_topics)
    of_cluster = nameserver.ClusterHeader(cluster="DefaultCluster")
    await ask("topics of a cluster", names, code.GET_TOPICS_BY_CLUSTER, of_cluster, decode=decode_topics)
    nobody = nameserver.ClusterHeader(cluster="nobody")
    await ask("topics of an unknown cluster", names, code.GET_TOPICS_BY_CLUSTER, nobody, decode=decode_topics)
    put = nameserver.PutKvConfigHeader(namespace="interop", key="k", value="v")
    key, unknown = nameserver.KvConfigHeader(namespace="interop", key="k"), {"namespace": "interop", "key": "none"}
    await ask("kv put", names, code.PUT_KV_CONFIG, put)
    await ask("kv get", names, code.GET_KV_CONFIG, key)
    await ask("kv get unknown", names, code.GET_KV_CONFIG, unknown)
    of_space = nameserver.NamespaceHeader(namespace="interop")
    await ask("kv list", names, code.GET_KVLIST_BY_NAMESPACE, of_space, decode=_body(bodies.KeyValues))
    none = nameserver.NamespaceHeader(namespace="none")
    await ask("kv list of an unknown namespace", names, code.GET_KVLIST_BY_NAMESPACE, none)
    await ask("kv delete", names, code.DELETE_KV_CONFIG, key)
    await ask("kv delete again", names, code.DELETE_KV_CONFIG, key)
    await ask("name server config", names, code.GET_NAMESRV_CONFIG, decode=_lines)
    await ask("name server config of a protected key", names, code.UPDATE_NAMESRV_CONFIG, body=b"kvConfigPath=/tmp/x")
    await ask("name server: unknown request", names, 999)
    await ask("name server: broker's request", names, code.SEND_MESSAGE_V2, send_header())


async def _register(notes: Notes, names: Connection) -> None:
    code, ask = RequestCode, notes.ask
    identity: dict[str, Any] = {
        "broker_name": "broker-x",
        "broker_addr": "127.0.0.1:1999",
        "cluster_name": "InteropCluster",
        "broker_id": 0,
    }
    version = DataVersion(counter=1, timestamp=BORN_MS)
    topics = {name: TopicConfig(topic_name=name, read_queue_nums=3, write_queue_nums=2) for name in ("Xa", "Xb")}
    registration = BrokerRegistration(topics=RegisteredTopics(data_version=version, topic_config_table=topics))

    async def register(name: str, *, compressed: bool, checksum: int | None = None) -> None:
        body = encode_registration(registration, compressed=compressed, version=VERSION)
        crc = body_checksum(body) if checksum is None else checksum
        header = nameserver.RegisterBrokerHeader(
            **identity, ha_server_addr="127.0.0.1:2000", compressed=compressed, body_crc32=crc
        )
        await ask(name, names, code.REGISTER_BROKER, header, body, decode=_body(bodies.KeyValues))

    identity_header = nameserver.BrokerIdentityHeader(**identity)
    same = java_json.dumps(version)
    newer = java_json.dumps(version.next(BORN_MS + 1))
    versions, decode_version = code.QUERY_DATA_VERSION, _json(DataVersion)
    await ask("data version of an unknown broker", names, versions, identity_header, same, decode=decode_version)
    await register("register with a wrong checksum", compressed=False, checksum=1)
    await register("register", compressed=False)
    await register("register again, compressed", compressed=True)
    await ask("data version, same", names, versions, identity_header, same, decode=decode_version)
    await ask("data version, newer", names, versions, identity_header, newer, decode=decode_version)
    xa = nameserver.GetRouteHeader(topic="Xa")
    await ask("route of a registered topic", names, code.GET_ROUTEINFO_BY_TOPIC, xa, decode=decode_route)
    group = nameserver.BrokerMemberGroupHeader(cluster_name="InteropCluster", broker_name="broker-x")
    await ask("broker members", names, code.GET_BROKER_MEMBER_GROUP, group, decode=_plain)
    beat = nameserver.BrokerHeartbeatHeader(
        cluster_name="InteropCluster", broker_addr="127.0.0.1:1999", broker_name="broker-x"
    )
    await ask("broker heartbeat", names, code.BROKER_HEARTBEAT, beat)
    broker_x = nameserver.BrokerNameHeader(broker_name="broker-x")
    await ask("wipe write permission", names, code.WIPE_WRITE_PERM_OF_BROKER, broker_x)
    await ask("route without write permission", names, code.GET_ROUTEINFO_BY_TOPIC, xa, decode=decode_route)
    await ask("add write permission", names, code.ADD_WRITE_PERM_OF_BROKER, broker_x)
    removed = nameserver.DeleteTopicInNameServerHeader(topic="Xb")
    await ask("delete topic in name server", names, code.DELETE_TOPIC_IN_NAMESRV, removed)
    await ask("delete topic in name server again", names, code.DELETE_TOPIC_IN_NAMESRV, removed)
    await ask("unregister", names, code.UNREGISTER_BROKER, identity_header)
    for _ in range(30):  # it is worked off in the background
        gone = await ask("route after unregister", names, code.GET_ROUTEINFO_BY_TOPIC, xa)
        if gone.code != 0:
            break
        await asyncio.sleep(0.1)


# --- broker --------------------------------------------------------------------------------------------------------


def topic_header(topic: str, queues: int = 4, **changes: Any) -> admin.CreateTopicHeader:
    fields: dict[str, Any] = {
        "topic": topic,
        "default_topic": "TBW102",
        "read_queue_nums": queues,
        "write_queue_nums": queues,
        "perm": 6,
        "topic_filter_type": "SINGLE_TAG",
        "topic_sys_flag": 0,
        "order": False,
    }
    return admin.CreateTopicHeader(**fields | changes)


def send_header(topic: str = TOPIC, queue_id: int = 0, properties: str = "", **changes: Any) -> SendV2Header:
    fields: dict[str, Any] = {
        "producer_group": "interop-senders",
        "topic": topic,
        "default_topic": "TBW102",
        "default_topic_queue_nums": 4,
        "queue_id": queue_id,
        "sys_flag": 0,
        "born_timestamp": BORN_MS,
        "flag": 0,
        "properties": properties,
        "reconsume_times": 0,
        "unit_mode": False,
        "batch": False,
    }
    return SendV2Header(**fields | changes)


def pull_header(offset: int, *, queue_id: int = 0, wait_ms: int = 0, tags: str = "*", **changes: Any) -> Any:
    flag = PullFlag.SUBSCRIPTION | (PullFlag.SUSPEND if wait_ms else 0)
    fields: dict[str, Any] = {
        "consumer_group": GROUP,
        "topic": TOPIC,
        "queue_id": queue_id,
        "queue_offset": offset,
        "max_msg_nums": 32,
        "sys_flag": int(flag),
        "commit_offset": 0,
        "suspend_timeout_millis": wait_ms,
        "subscription": tags,
        "sub_version": 0,
        "expression_type": "TAG",
    }
    return consumer.PullHeader(**fields | changes)


async def _make_topics(notes: Notes, broker: Connection, names: Connection) -> None:
    code, ask = RequestCode, notes.ask
    create = code.UPDATE_AND_CREATE_TOPIC
    await ask("create topic", broker, create, topic_header(TOPIC))
    await ask("create topic again", broker, create, topic_header(TOPIC))
    await ask("create topic with a bad name", broker, create, topic_header("no spaces"))
    await ask("create topic with a system name", broker, create, topic_header("SCHEDULE_TOPIC_XXXX"))
    await ask("create topic with a long name", broker, create, topic_header("t" * 128))
    await ask("create topic with attributes", broker, create, topic_header("Fifo", attributes="+message.type=FIFO"))
    await ask("create topic with bad attributes", broker, create, topic_header("Fife", attributes="+no.such=1"))
    get = code.GET_TOPIC_CONFIG
    await ask("topic config", broker, get, admin.GetTopicConfigHeader(topic=TOPIC), decode=_plain)
    await ask("topic config of an unknown topic", broker, get, admin.GetTopicConfigHeader(topic="nowhere"))
    group = java_json.dumps(GroupConfig(group_name=GROUP, retry_max_times=5))
    await ask("create group", broker, code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=group)
    of_group = admin.GroupHeader(group=GROUP)
    await ask("group config", broker, code.GET_SUBSCRIPTIONGROUP_CONFIG, of_group, decode=_json(GroupConfig))
    nobody = admin.GroupHeader(group="nobody")
    await ask("group config of an unknown group", broker, code.GET_SUBSCRIPTIONGROUP_CONFIG, nobody, decode=_plain)
    route = nameserver.GetRouteHeader(topic=TOPIC)
    await ask("route of a new topic", names, code.GET_ROUTEINFO_BY_TOPIC, route, decode=decode_route)


async def _send(notes: Notes, broker: Connection) -> None:
    code, ask = RequestCode, notes.ask
    v2 = code.SEND_MESSAGE_V2
    properties = "KEYS\x01k1 k2\x02TAGS\x01TagA\x02UNIQ_KEY\x01U1\x02WAIT\x01true\x02"
    await ask("send V2", broker, v2, send_header(properties=properties), b"first")
    await ask("send V2 without properties", broker, v2, send_header(properties=""), b"second")
    v1 = {name: getattr(send_header(properties="TAGS\x01TagB\x02"), name) for name in SendHeader.__struct_fields__}
    await ask("send V1", broker, code.SEND_MESSAGE, SendHeader(**v1), b"third")
    items = [BatchItem(b"b%d" % n, b"KEYS\x01kb%d\x02UNIQ_KEY\x01UB%d\x02" % (n, n)) for n in range(3)]
    batch = send_header(batch=True, properties="UNIQ_KEY\x01UB0,UB1,UB2\x02WAIT\x01true\x02")
    keyless = encode_batch([BatchItem(b"b", b"UNIQ_KEY\x01UB3\x02"), BatchItem(b"b")])
    await ask("send batch", broker, code.SEND_BATCH_MESSAGE, batch, encode_batch(items))
    await ask("send batch without a key", broker, code.SEND_BATCH_MESSAGE, send_header(batch=True, queue_id=1), keyless)
    await ask("send to an unknown topic", broker, v2, send_header("Automatic"), b"x")
    await ask("send without template", broker, v2, send_header("NoTemplate", default_topic="nothing"), b"x")
    await ask("send to a queue out of range", broker, v2, send_header(queue_id=99), b"x")
    await ask("send to any queue", broker, v2, send_header("AnyQueue", queue_id=-1, default_topic_queue_nums=1), b"x")
    await ask("send to a bad topic name", broker, v2, send_header("no spaces"), b"x")
    await ask("send to a long topic name", broker, v2, send_header("t" * 128), b"x")
    await ask("send to a system topic", broker, v2, send_header("SCHEDULE_TOPIC_XXXX"), b"x")
    await ask("send to the template topic", broker, v2, send_header("TBW102"), b"x")
    await ask("send an empty body", broker, v2, send_header("EmptyBodies"), b"")
    await ask("send too large", broker, v2, send_header(queue_id=1), b"x" * 70_000)
    long = send_header(queue_id=1, properties="x\x01" + "y" * 32_760 + "\x02")
    await ask("send too large properties", broker, v2, long, b"x")
    await ask("send an empty batch", broker, code.SEND_BATCH_MESSAGE, send_header(batch=True), b"")
    await ask("send a torn batch", broker, code.SEND_BATCH_MESSAGE, send_header(batch=True), b"nonsense")
    await ask("send without required fields", broker, v2, {"b": TOPIC}, b"x")
    broker.request_oneway(v2, send_header(queue_id=2), b"oneway")
    await asyncio.sleep(_DISPATCH_S)


async def _pull(notes: Notes, broker: Connection, address: str) -> None:
    code, ask = RequestCode, notes.ask
    pull = code.PULL_MESSAGE
    await ask("pull", broker, pull, pull_header(0), decode=split_records)
    await ask("pull with a tag", broker, pull, pull_header(0, tags="TagA"), decode=split_records)
    await ask("pull with two tags", broker, pull, pull_header(0, tags="TagA || TagB"), decode=split_records)
    await ask("pull with a tag that nobody has", broker, pull, pull_header(0, tags="None"), decode=split_records)
    await ask("pull at the end", broker, pull, pull_header(6), decode=split_records)
    await ask("pull behind the end", broker, pull, pull_header(100), decode=split_records)
    await ask("pull before the beginning", broker, pull, pull_header(-1), decode=split_records)
    await ask("pull one", broker, pull, pull_header(1, max_msg_nums=1), decode=split_records)
    await ask("pull an empty queue", broker, pull, pull_header(0, queue_id=3), decode=split_records)
    await ask("pull an empty queue behind its end", broker, pull, pull_header(5, queue_id=3), decode=split_records)
    await ask("pull an unknown topic", broker, pull, pull_header(0, topic="nowhere"))
    await ask("pull a queue out of range", broker, pull, pull_header(0, queue_id=99))
    await ask("pull for a new group", broker, pull, pull_header(0, consumer_group="new-group"), decode=split_records)
    await ask("pull without subscription", broker, pull, pull_header(0, sys_flag=0), decode=split_records)
    bad_sql = pull_header(0, tags="a >", expression_type="SQL92")
    await ask("pull with bad SQL", broker, pull, bad_sql)
    lite = pull_header(0, sys_flag=int(PullFlag.SUBSCRIPTION | PullFlag.LITE_PULL))
    await ask("lite pull", broker, code.LITE_PULL_MESSAGE, lite, decode=split_records)
    await ask("pull held until its time is over", broker, pull, pull_header(6, wait_ms=1_000), decode=split_records)
    held = asyncio.create_task(
        ask("pull held until a message comes", broker, pull, pull_header(6, wait_ms=6_000), decode=split_records)
    )
    await asyncio.sleep(0.5)
    async with connected(address) as other:
        await ask("send that wakes a pull", other, code.SEND_MESSAGE_V2, send_header(), b"wake")
    await held


async def _members(notes: Notes, broker: Connection, address: str) -> None:
    code, ask = RequestCode, notes.ask
    members = shared.ConsumerGroupHeader(consumer_group=GROUP)
    decode_members = _body(bodies.GroupMemberIds)
    await ask("members of a group without members", broker, code.GET_CONSUMER_LIST_BY_GROUP, members)
    subscription = Subscription(topic=TOPIC, sub_version=1)
    heartbeat = Heartbeat(
        client_id=CLIENT,
        producer_data_set=(ProducerData(group_name="interop-senders"),),
        consumer_data_set=(ConsumerData(group_name=GROUP, subscription_data_set=(subscription,)),),
    )
    await ask("heartbeat", broker, code.HEART_BEAT, body=encode_heartbeat(heartbeat))
    await ask("heartbeat again", broker, code.HEART_BEAT, body=encode_heartbeat(heartbeat))

    async def beat(name: str, fingerprint: int, *, full: bool) -> None:
        data = ConsumerData(group_name=GROUP, subscription_data_set=(subscription,) if full else ())
        marked = Heartbeat(
            client_id=CLIENT, consumer_data_set=(data,), heartbeat_fingerprint=fingerprint, without_sub=not full
        )
        await ask(name, broker, code.HEART_BEAT, body=encode_heartbeat(marked))

    await beat("heartbeat with a fingerprint", 7, full=True)
    await beat("heartbeat with a fingerprint again", 7, full=True)
    await beat("heartbeat without subscriptions", 7, full=False)
    await beat("heartbeat without subscriptions that have changed", 8, full=False)
    await ask("heartbeat that is no JSON", broker, code.HEART_BEAT, body=b"{no json")
    await ask("members of a group", broker, code.GET_CONSUMER_LIST_BY_GROUP, members, decode=decode_members)
    await ask("pull of a member", broker, code.PULL_MESSAGE, pull_header(0, sys_flag=0), decode=split_records)
    check = CheckClient(client_id=CLIENT, group=GROUP, subscription_data=subscription)
    await ask("check client config", broker, code.CHECK_CLIENT_CONFIG, body=java_json.dumps(check))
    connections = code.GET_CONSUMER_CONNECTION_LIST
    await ask("consumer connections", broker, connections, members, decode=decode_consumer_connections)
    nobody = shared.ConsumerGroupHeader(consumer_group="nobody")
    await ask("consumer connections of nobody", broker, connections, nobody)
    senders = admin.ProducerGroupHeader(producer_group="interop-senders")
    await ask("producer connections", broker, code.GET_PRODUCER_CONNECTION_LIST, senders, decode=_plain)
    unknown = admin.ProducerGroupHeader(producer_group="nobody")
    await ask("producer connections of nobody", broker, code.GET_PRODUCER_CONNECTION_LIST, unknown)
    await ask("all producers", broker, code.GET_ALL_PRODUCER_INFO, decode=_plain)
    who = admin.QuerySubscriptionHeader(group=GROUP, topic=TOPIC)
    await ask("subscription of a group", broker, code.QUERY_SUBSCRIPTION_BY_CONSUMER, who, decode=_plain)
    queue = QueueId(topic=TOPIC, broker="broker-a", number=0)
    lock, unlock, response = code.LOCK_BATCH_MQ, code.UNLOCK_BATCH_MQ, _body(bodies.LockResponse)
    mine = bodies.encode(bodies.LockRequest(consumer_group=GROUP, client_id=CLIENT, mq_set=(queue,)))
    theirs = bodies.encode(bodies.LockRequest(consumer_group=GROUP, client_id="other", mq_set=(queue,)))
    await ask("lock", broker, lock, body=mine, decode=response)
    await ask("lock what another has", broker, lock, body=theirs, decode=response)
    await ask("unlock what another has", broker, unlock, body=theirs)
    await ask("unlock", broker, unlock, body=mine)
    await ask("lock after unlock", broker, lock, body=theirs, decode=response)
    await ask("unlock by the other", broker, unlock, body=theirs)
    notes.asked.clear()
    async with connected(address) as other:
        second = Heartbeat(client_id="127.0.0.1@second", consumer_data_set=heartbeat.consumer_data_set)
        await ask("heartbeat of a second member", other, code.HEART_BEAT, body=encode_heartbeat(second))
        await asyncio.sleep(0.3)
        changed = Exchange("notice of changed members")
        changed.body = [(each.code, each.is_oneway, each.ext()) for each in notes.asked]
        notes.exchanges[changed.name] = changed
        leave = consumer.UnregisterClientHeader(client_id="127.0.0.1@second", consumer_group=GROUP)
        await ask("unregister client", other, code.UNREGISTER_CLIENT, leave)
    assignment = bodies.AssignmentRequest(topic=TOPIC, consumer_group=GROUP, client_id=CLIENT)
    decode_assignment = _body(bodies.AssignmentResponse)
    await ask(
        "query assignment",
        broker,
        code.QUERY_ASSIGNMENT,
        body=bodies.encode(assignment),
        decode=decode_assignment,
    )


async def _offsets(notes: Notes, broker: Connection) -> None:
    code, ask = RequestCode, notes.ask
    query, update = code.QUERY_CONSUMER_OFFSET, code.UPDATE_CONSUMER_OFFSET

    def of(group: str, queue_id: int = 0, **changes: Any) -> consumer.QueryConsumerOffsetHeader:
        return consumer.QueryConsumerOffsetHeader(consumer_group=group, topic=TOPIC, queue_id=queue_id, **changes)

    def to(offset: int, topic: str = TOPIC) -> consumer.UpdateConsumerOffsetHeader:
        return consumer.UpdateConsumerOffsetHeader(consumer_group=GROUP, topic=topic, queue_id=0, commit_offset=offset)

    await ask("query offset of a new group", broker, query, of("fresh"))
    await ask("query offset of a new group, no zero", broker, query, of("fresh", set_zero_if_not_found=False))
    await ask("query offset of an empty queue", broker, query, of("fresh", 3))
    await ask("update offset", broker, update, to(2))
    await ask("query offset", broker, query, of(GROUP))
    await ask("update offset backwards", broker, update, to(1))
    await ask("update offset of an unknown topic", broker, update, to(1, topic="nowhere"))
    await ask("query offset of an unknown topic", broker, query, {**_ext(of(GROUP)), "topic": "nowhere"})
    header = consumer.GetMaxOffsetHeader(topic=TOPIC, queue_id=0)
    await ask("max offset", broker, code.GET_MAX_OFFSET, header)
    await ask("max offset of an unknown topic", broker, code.GET_MAX_OFFSET, {"topic": "nowhere", "queueId": "0"})
    queue, empty = consumer.QueueHeader(topic=TOPIC, queue_id=0), consumer.QueueHeader(topic=TOPIC, queue_id=3)
    await ask("min offset", broker, code.GET_MIN_OFFSET, queue)
    await ask("min offset of an unknown topic", broker, code.GET_MIN_OFFSET, {"topic": "nowhere", "queueId": "0"})
    await ask("earliest store time", broker, code.GET_EARLIEST_MSG_STORETIME, queue)
    await ask("earliest store time of an empty queue", broker, code.GET_EARLIEST_MSG_STORETIME, empty)
    search = code.SEARCH_OFFSET_BY_TIMESTAMP
    for name, timestamp in (("long ago", 1), ("in the future", 4_000_000_000_000)):
        at = consumer.SearchOffsetHeader(topic=TOPIC, queue_id=0, timestamp=timestamp)
        await ask(f"search offset {name}", broker, search, at)
        upper = consumer.SearchOffsetHeader(topic=TOPIC, queue_id=0, timestamp=timestamp, boundary_type="UPPER")
        await ask(f"search offset {name}, upper", broker, search, upper)


def _ext(header: Header) -> dict[str, str]:
    from pyromq.wire.ext import header_to_ext

    return dict(header_to_ext(header))


async def _look_up(notes: Notes, broker: Connection) -> None:
    code, ask = RequestCode, notes.ask

    def key(text: str, *, unique: bool | None = None, topic: str = TOPIC) -> consumer.QueryMessageHeader:
        return consumer.QueryMessageHeader(
            topic=topic, key=text, max_num=32, begin_timestamp=0, end_timestamp=2**62, unique_key_query=unique
        )

    await asyncio.sleep(1)  # the index of Apache's broker is filled in the background
    query = code.QUERY_MESSAGE
    await ask("query by key", broker, query, key("k2"), decode=split_records)
    await ask("query by key of a batch item", broker, query, key("kb1"), decode=split_records)
    await ask("query by unique key", broker, query, key("U1", unique=True), decode=split_records)
    await ask("query by unique key of a batch item", broker, query, key("UB1", unique=True), decode=split_records)
    await ask("query by an unknown key", broker, query, key("none"))
    await ask("query by key in an unknown topic", broker, query, key("k1", topic="nowhere"))
    sent = notes.exchanges["send V2"].ext.get("msgId")
    position = decode_offset_id(sent)[1] if sent else 0
    view = code.VIEW_MESSAGE_BY_ID
    await ask("view by id", broker, view, consumer.ViewMessageHeader(position=position), decode=split_records)
    await ask("view by a position inside a message", broker, view, consumer.ViewMessageHeader(position=position + 1))
    await ask("view by a position behind the log", broker, view, consumer.ViewMessageHeader(position=1 << 40))


async def _administer(notes: Notes, broker: Connection) -> None:
    code, ask = RequestCode, notes.ask
    topic, unknown = shared.TopicHeader(topic=TOPIC), shared.TopicHeader(topic="nowhere")
    stats = _body(bodies.TopicStats)
    await ask("topic stats", broker, code.GET_TOPIC_STATS_INFO, topic, decode=stats)
    await ask("topic stats of an unknown topic", broker, code.GET_TOPIC_STATS_INFO, unknown)
    progress = admin.GetConsumeStatsHeader(consumer_group=GROUP)
    await ask("consume stats", broker, code.GET_CONSUME_STATS, progress, decode=_body(bodies.ConsumeStatsBody))
    nobody = admin.GetConsumeStatsHeader(consumer_group="nobody")
    await ask("consume stats of nobody", broker, code.GET_CONSUME_STATS, nobody, decode=_body(bodies.ConsumeStatsBody))
    await ask("runtime info", broker, code.GET_BROKER_RUNTIME_INFO, decode=_body(bodies.KeyValues))
    await ask("broker config", broker, code.GET_BROKER_CONFIG, decode=_lines)
    await ask("update broker config", broker, code.UPDATE_BROKER_CONFIG, body=b"brokerPermission=6\n")
    await ask("update broker config of a protected key", broker, code.UPDATE_BROKER_CONFIG, body=b"brokerConfigPath=x")
    await ask("all topic configs", broker, code.GET_ALL_TOPIC_CONFIG, decode=decode_topic_table)
    await ask("all group configs", broker, code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, decode=_plain)
    await ask("all consumer offsets", broker, code.GET_ALL_CONSUMER_OFFSET, decode=_plain)
    await ask("all delay offsets", broker, code.GET_ALL_DELAY_OFFSET, decode=_plain)
    await ask("system topics of the broker", broker, code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, decode=decode_topics)
    await ask("who consumes a topic", broker, code.QUERY_TOPIC_CONSUME_BY_WHO, topic, decode=_plain)
    of_group = admin.GroupHeader(group=GROUP)
    await ask("topics of a group", broker, code.QUERY_TOPICS_BY_CONSUMER, of_group, decode=decode_topics)
    span = shared.TopicGroupHeader(topic=TOPIC, group=GROUP)
    await ask("consume time span", broker, code.QUERY_CONSUME_TIME_SPAN, span, decode=_plain)
    await ask("consume stats of the broker", broker, code.GET_BROKER_CONSUME_STATS, {"isOrder": "false"}, decode=_plain)
    entries = admin.QueryConsumeQueueHeader(topic=TOPIC, queue_id=0, index=0, count=2, consumer_group=GROUP)
    await ask("query consume queue", broker, code.QUERY_CONSUME_QUEUE, entries, decode=_plain)
    of_nobody = admin.QueryConsumeQueueHeader(topic=TOPIC, queue_id=0, index=0, count=2)
    await ask("query consume queue for nobody", broker, code.QUERY_CONSUME_QUEUE, of_nobody, decode=_plain)
    named = admin.ViewBrokerStatsHeader(stats_name="TOPIC_PUT_NUMS", stats_key=TOPIC)
    await ask("broker stats data", broker, code.VIEW_BROKER_STATS_DATA, named, decode=_plain)
    correction = admin.QueryCorrectionOffsetHeader(topic=TOPIC, compare_group=GROUP)
    await ask("correction offset", broker, code.QUERY_CORRECTION_OFFSET, correction, decode=_plain)
    forbid = admin.GroupForbiddenHeader(group=GROUP, topic=TOPIC)
    await ask("group forbidden", broker, code.UPDATE_AND_GET_GROUP_FORBIDDEN, forbid, decode=_plain)
    clone = admin.CloneGroupOffsetHeader(src_group=GROUP, dest_group="copy", topic=TOPIC)
    await ask("clone offsets", broker, code.CLONE_GROUP_OFFSET, clone)
    status = admin.GetConsumerStatusHeader(topic=TOPIC, group="nobody")
    await ask("consumer status of nobody", broker, code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, status)
    info = shared.ConsumerRunningInfoHeader(consumer_group="nobody", client_id="none")
    await ask("running info of nobody", broker, code.GET_CONSUMER_RUNNING_INFO, info)
    reset = shared.ResetOffsetHeader(topic=TOPIC, group="offline", timestamp=1, is_force=True)
    await ask("reset offsets of nobody", broker, code.INVOKE_BROKER_TO_RESET_OFFSET, reset, decode=_plain)
    for name, number in (("clean expired queues", 306), ("clean unused topics", 316), ("delete expired log", 329)):
        await ask(name, broker, number)
    for name, number in (("unit topics", 311), ("unit subscriptions", 312), ("unit subscriptions of others", 313)):
        await ask(name, broker, number, decode=_plain)
    await ask("message request modes", broker, code.GET_ALL_MESSAGE_REQUEST_MODE, decode=_plain)
    await ask("timer metrics", broker, code.GET_TIMER_METRICS, decode=_plain)
    await ask("timer check point", broker, code.GET_TIMER_CHECK_POINT)
    await ask("HA status", broker, code.GET_BROKER_HA_STATUS, decode=_plain)
    await ask("broker: unknown request", broker, 999)


async def _remove(notes: Notes, broker: Connection, names: Connection) -> None:
    code, ask = RequestCode, notes.ask
    beyond = consumer.UpdateConsumerOffsetHeader(consumer_group=GROUP, topic=TOPIC, queue_id=99, commit_offset=1)
    await ask("update offset of a queue out of range", broker, code.UPDATE_CONSUMER_OFFSET, beyond)  # Apache keeps it
    away = admin.DeleteGroupHeader(group_name="new-group", clean_offset=True)
    await ask("delete group", broker, code.DELETE_SUBSCRIPTIONGROUP, away)
    await ask("delete unknown group", broker, code.DELETE_SUBSCRIPTIONGROUP, {"groupName": "nobody"})
    await ask("delete topic", broker, code.DELETE_TOPIC_IN_BROKER, shared.TopicHeader(topic="Automatic"))
    await ask("delete unknown topic", broker, code.DELETE_TOPIC_IN_BROKER, shared.TopicHeader(topic="nowhere"))
    await ask("delete system topic", broker, code.DELETE_TOPIC_IN_BROKER, shared.TopicHeader(topic="TBW102"))
