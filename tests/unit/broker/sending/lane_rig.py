"""A broker without sockets that is fed bytes, with the compiled core or without it, and all that comes of them."""

from __future__ import annotations

import importlib
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest

from pyromq import compiled_core
from pyromq.broker.base.settings import BrokerSettings
from pyromq.broker.broker import Broker
from pyromq.net import Address, Connection
from pyromq.net.half_read import HalfReadFrames
from pyromq.net.idle import IdleWatch
from pyromq.net.settings import ConnectionSettings
from pyromq.net.stalls import StallWatch
from pyromq.store import message_store, recovery
from pyromq.store.settings import Flush, StoreSettings
from pyromq.testing import FaultyDisk, ManualClock
from pyromq.wire.batch import BatchItem, encode_batch
from pyromq.wire.codes import RequestCode
from pyromq.wire.command import encode_request
from tests.derived_again import assert_derived_again
from tests.unit.net.fakes import FakeTransport, turn

ROOT = Path("/data")
STORE: dict[str, Any] = {
    "segment_bytes": 48 * 1024,  # so that segments end all the time
    "queue_file_entries": 64,
    "index_slots": 97,
    "index_entries": 300,
    "index_backlog_max": 16,
    "entry_backlog_max": 64,
    "body_bytes_max": 20_000,
    "timer_wheel_slots": 400,
    "timer_log_bytes": 4096,
    "timer_roll_ms": 100_000,
}


class NoServer:
    """Takes the place of ``Server``: nothing listens."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.addresses = [Address("127.0.0.1", 10911)]
        self.stalls = StallWatch()
        self.half_read = HalfReadFrames(1 << 20)

    async def start(self) -> None:
        return

    async def part(self, reason: str) -> None:
        return

    async def stop(self) -> None:
        return


class PlainTransport(FakeTransport):
    """Without TLS."""

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return None if name == "peercert" else super().get_extra_info(name, default)


class Peer:
    """A client: what it sends arrives in reads of the test's choice."""

    def __init__(self, broker: Broker, clock: ManualClock, number: int, host: str = "10.0.0.1") -> None:
        settings = ConnectionSettings(idle_ms=0)
        remote = Address(host, 4000 + number)
        self.connection = Connection(
            *(broker.dispatcher, clock, settings, IdleWatch(clock, 0), remote),
            is_server=True,
            half_read=HalfReadFrames(1 << 20),
        )
        self.transport = PlainTransport(self.connection)
        self.connection.connection_made(self.transport)

    def arrive(self, data: bytes) -> None:
        if self.connection.is_open:
            self.connection.get_buffer(-1)[: len(data)] = data
            self.connection.buffer_updated(len(data))

    @property
    def answered(self) -> bytes:
        return b"".join(self.transport.writes)

    @property
    def facts(self) -> tuple[Any, ...]:
        each = self.connection
        numbers = (each.frames_in, each.frames_out, each.bytes_in, each.bytes_out, each.half_read_bytes)
        return (*numbers, each.close_reason, each.is_open, self.answered)


@dataclass
class LaneRig:
    """``async with LaneRig(...) as rig``: a broker that serves, with the lane or without."""

    with_core: bool
    flush: Flush = Flush.ASYNC
    seed: int = 0
    peers: int = 3
    settings: dict[str, Any] = field(default_factory=dict)
    store: dict[str, Any] = field(default_factory=dict)

    async def __aenter__(self) -> LaneRig:
        self.clock = ManualClock()
        self.disk = FaultyDisk()
        store = StoreSettings(flush=self.flush, **STORE | self.store)
        settings = BrokerSettings(port=0, store=store, transactions=True, **self.settings)
        self.broker = Broker(
            settings,
            ROOT,
            clock=self.clock,
            disk=self.disk,
            rng=Random(self.seed),
            new_server=NoServer,  # type: ignore[arg-type]
        )
        await self.broker.start()
        await self.broker.tenure.cancel_tasks()  # time is the test's
        self.broker.parts.services.delay_runner.halt()  # likewise: it has timers of its own
        if not self.with_core:
            self.sends.lane = self.pulls.lane = self.pops.lane = None
            self.broker.parts.popping.pops._taker._lane = None
        self.clients = [Peer(self.broker, self.clock, number) for number in range(self.peers)]
        self.gone: list[Peer] = []
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.settle()
        await self.broker.stop()

    def assert_derived_again(self) -> None:
        """Its queues and keys are what its log says; to be called when it has stopped."""
        assert assert_derived_again(ROOT, self.broker.settings.store, self.disk)

    @property
    def sends(self) -> Any:
        return self.broker.parts.handlers.sends

    @property
    def pulls(self) -> Any:
        return self.broker.parts.handlers.pulls

    @property
    def pops(self) -> Any:
        return self.broker.parts.handlers.pops

    def arrive(self, number: int, data: bytes) -> None:
        """One read; a client whose connection has ended connects again."""
        if not self.clients[number].connection.is_open:
            self.gone.append(self.clients[number])
            self.clients[number] = Peer(self.broker, self.clock, number)
        self.clients[number].arrive(data)

    async def settle(self) -> None:
        """What has begun comes to its end."""
        await turn()
        await self.broker.parts.write_path.group_commit.drain()
        await turn()

    def outcome(self) -> dict[str, Any]:
        """Everything that the bytes brought about."""
        store, counters = self.broker.store, self.broker.parts.stats.counters
        store.indexer.index_all()
        store.write_entries()
        return {
            "clients": [peer.facts for peer in (*self.gone, *self.clients)],
            "files": files_of(self.disk),
            "numbers": counters.numbers(),
            "puts": dict(self.broker.parts.stats.puts.totals),
            "gets": dict(counters.gets),
            "end": (store.end_position, store.flushed_position, store.last_stored_ms, store.indexer.position),
            "queues": {key: (queue.first, queue.end, queue.next_offset) for key, queue in store.queues.items()},
            "waiting": self.broker.parts.write_path.pressure.waiting_for_disk,
            **self._readers(),
        }

    def _readers(self) -> dict[str, Any]:
        """How far groups are, which pulls wait, how often pulls ended how."""
        parts = self.broker.parts
        latency, times = parts.stats.counters.requests.latency, {}
        for (code, response, held), histogram in latency.items():
            if code == RequestCode.PULL_MESSAGE:
                times[response, held] = histogram.count
        return {
            "offsets": dict(parts.tables.progress.items()),
            "pulled": dict(parts.tables.progress._pulled),
            "commits": parts.tables.progress._commits,
            "held": sorted((held.queue, held.scanned, held.request.correlation_id) for held in parts.waiters),
            "pull times": times,
        }


def use_pure_queues(patch: pytest.MonkeyPatch) -> None:
    """Stores that are opened from now on hold queue entries in Python, as without the core."""
    names = [f"pyromq.store.derived.{name}" for name in ("queue_tail", "consume_queue", "entry_backlog")]
    with pytest.MonkeyPatch.context() as meanwhile:
        meanwhile.setattr(compiled_core, "core", None)
        for name in names:
            meanwhile.delitem(sys.modules, name)
            meanwhile.setattr(name, sys.modules[name.rpartition(".")[0]].__dict__[name.rpartition(".")[2]])
        _, consume_queue, entry_backlog = map(importlib.import_module, names)
    assert consume_queue.ConsumeQueue.__mro__[1].__name__ == "PureTail"
    for module in (message_store, recovery):
        patch.setattr(module, "ConsumeQueue", consume_queue.ConsumeQueue)
    patch.setattr(message_store, "EntryBacklog", entry_backlog.EntryBacklog)


def files_of(disk: FaultyDisk) -> dict[str, bytes]:
    found: dict[str, bytes] = {}

    def walk(folder: Any, path: str) -> None:
        for name, node in folder.seen.items():
            if hasattr(node, "durable") and isinstance(node.seen, dict):
                walk(node, f"{path}/{name}")
            else:
                found[f"{path}/{name}"] = bytes(node.seen)

    walk(disk._root, "")
    return found


# --- what clients send ---


def send_frame(number: int, topic: str, queue: Any, properties: str | None, body: bytes, **odd: Any) -> bytes:
    """As Java's client writes it; ``odd`` has other values for fields of the header, and ``ext`` for ext fields."""
    ext = {"a": "producers", "b": topic, "c": "TBW102", "d": "4", "e": str(queue), "f": "0", "g": "1700000000123"}
    ext |= {"h": "0", "i": properties, "j": "0", "k": "false", "l": "16", "m": "false", "n": "broker-a"}
    ext |= odd.pop("ext", {})
    header = {"code": 310, "extFields": {name: value for name, value in ext.items() if value is not None}, "flag": 0}
    header |= {"language": "JAVA", "opaque": number, "serializeTypeCurrentRPC": "JSON", "version": 401} | odd
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=number % 2 == 0).encode("utf-8", "surrogatepass")
    return (len(text) + len(body) + 4).to_bytes(4, "big") + len(text).to_bytes(4, "big") + text + body


MADE_UP = "TAGS\x01TagB\x02TAGS\x01\x02__CRC32#\x01TAGS\x01"  # a checksum of the sender's own, with a tag inside


def properties_of(rng: Random, number: int, oddness: float) -> str:
    """Mostly those of an ordinary message, sometimes odd ones."""
    items = [("UNIQ_KEY", f"7F000001{number:024X}")]
    for chance, item in _ITEMS:
        if rng.random() < (chance if chance > 0.05 else chance * oddness):
            items.insert(rng.randrange(len(items) + 1), item)
    text = "".join(f"{name}\x01{value}\x02" for name, value in items)
    match rng.randrange(40) if rng.random() < oddness else 39:
        case 0:
            return text[:-1]
        case 1:
            return text + rng.choice(
                ("\x02", "\x01", "TAGS", "KEYS\x01", "x" * 200, "\x00", "__CRC32#\x010123456789\x02", MADE_UP)
            )
        case 2:
            return text.replace("UNIQ_KEY", rng.choice(("UNIQ_KEYS", "XUNIQ_KEY", "", "WAIT")))
        case 3:
            return "".join(rng.choice(text + '\x01\x02#ä😀"\\') for _ in range(rng.randrange(60)))
    return text


_ITEMS = (
    (0.6, ("TAGS", "TagA")),
    (0.1, ("TAGS", "Tag\x7fB")),
    (0.1, ("TAGS", "übung")),
    (0.02, ("TAGS", "")),
    (0.6, ("KEYS", "order-17")),
    (0.2, ("KEYS", "a b  c#d")),
    (0.02, ("KEYS", " ".join(map(str, range(80))))),
    (0.1, ("name", 'Zoë 😀 "quoted" \\ / \n\t')),
    (0.3, ("WAIT", "true")),
    (0.04, ("WAIT", "false")),
    (0.03, ("DELAY", "2")),
    (0.02, ("note", "DELAYED")),
    (0.02, ("TIMER_DELAY_SEC", "3")),
    (0.02, ("TRAN_MSG", "true")),
    (0.01, ("INNER_NUM", "2")),
    (0.01, ("POP_CK", "1 2 3")),
    (0.01, ("MYTAGS", "x")),
    (0.01, ("long", "x" * 33_000)),
)
TOPICS = ("orders",) * 10 + ("payments",) * 4 + ("y" * 127, "t" * 130, "made-later", "made-later")
ODD_TOPICS = ("üben", "%RETRY%g", "SCHEDULE_TOPIC_XXXX", "x" * 300, "")


def random_frame(rng: Random, number: int, oddness: float = 1.0) -> bytes:
    """One request: mostly a plain send."""
    topic = rng.choice(TOPICS if rng.random() < 0.98 else ODD_TOPICS)
    queue = rng.choice((0, 1, 2, 3) if rng.random() < 0.97 else (4, 7, -1, 40))
    body = rng.randbytes(
        rng.choice((0, 1, 100, 300, 300, 300, 1000, 1000, 17_000, 21_000) if rng.random() < 0.2 else (300,))
    )
    kind = rng.random() * (0.75 + 0.25 * oddness)
    if kind < 0.75:
        return send_frame(number, topic, queue, properties_of(rng, number, oddness), body)
    if kind < 0.85:
        return _batch(rng, number, topic, queue, oddness)
    if kind < 0.91:
        return _odd(rng, number, topic, queue, body)
    if kind < 0.985:
        return _pull(rng, number, topic)
    return _other(rng, number)


def _batch(rng: Random, number: int, topic: str, queue: int, oddness: float) -> bytes:
    items = [
        BatchItem(
            rng.randbytes(rng.choice((0, 10, 200))),
            properties_of(rng, each, oddness).encode()[:32_000],
            rng.randrange(-3, 3),
        )
        for each in range(rng.choice((0, 1, 2, 5, 32)))
    ]
    body = encode_batch(items)
    if rng.random() < 0.05:
        body = body[: rng.randrange(len(body) + 1)]
    if rng.random() < 0.05:
        body = body.replace(b"KEYS", b"K\xc3\x28S")  # no UTF-8
    text = rng.choice((None, "", f"UNIQ_KEY\x01{number:032X}\x02", "WAIT\x01false\x02"))
    code, says_so = rng.choice(((320, "true"), (320, "false"), (310, "true"), (320, None)))
    return send_frame(number, topic, queue, text, body, code=code, ext={"m": says_so})


def _odd(rng: Random, number: int, topic: str, queue: int, body: bytes) -> bytes:
    text = properties_of(rng, number, 1.0)
    odd: dict[str, Any] = rng.choice(
        (
            {"flag": 2},
            {"flag": 2},
            {"opaque": -number},
            {"language": 12},
            {"language": "PYTHON", "remark": "hello"},
            {"code": 10},
            {"version": 7},
            {"ext": {"f": rng.choice(("4", "8", "12", "16", "32", "1", "64", "128", "192", "2048"))}},
            {"ext": {"j": "3"}},
            {"ext": {"j": None, "k": None, "l": None, "m": None, "n": None}},
            {"ext": {"k": "true"}},
            {"ext": {"k": "1"}},
            {"ext": {"e": "01"}},
            {"ext": {"e": queue}},
            {"ext": {"g": "12.0"}},
            {"ext": {"h": str(2**31)}},
            {"ext": {"h": "-7"}},
            {"ext": {"b": None}},
            {"ext": {"AccessKey": "ä", "Signature": "x", "ns": "1"}},
            {"serializeTypeCurrentRPC": "ROCKETMQ"},
            {"unknown": [1, {"a": None}]},
        )
    )
    frame = send_frame(number, topic, queue, text, body, **odd)
    if rng.random() < 0.05:
        at = rng.randrange(8, len(frame))
        frame = frame[:at] + rng.randbytes(1) + frame[at + 1 :]
    return frame


def _pull(rng: Random, number: int, topic: str) -> bytes:
    header = {
        "consumerGroup": "readers",
        "topic": topic,
        "queueId": str(rng.randrange(5)),
        "queueOffset": str(rng.choice((0, 0, 1, 5, 30, 1000))),
        "maxMsgNums": str(rng.choice((1, 5, 32, 100))),
        "sysFlag": "4",
        "commitOffset": "0",
        "suspendTimeoutMillis": "0",
        "subscription": rng.choice(("*", "*", "TagA", "TagA || übung", "nothing")),
        "subVersion": "0",
    }
    if rng.random() < 0.3:
        header["maxMsgBytes"] = str(rng.choice((1, 2000, 30_000)))
    return encode_request(RequestCode.PULL_MESSAGE, number, header)


def _other(rng: Random, number: int) -> bytes:
    name = rng.choice(("made-later", "orders", "payments"))
    match rng.randrange(5):
        case 0:
            queues = str(rng.choice((2, 4, 8)))
            ext = {"topic": name, "defaultTopic": "TBW102", "readQueueNums": "8", "writeQueueNums": queues, "perm": "6"}
            ext |= {"topicFilterType": rng.choice(("SINGLE_TAG", "SINGLE_TAG", "MULTI_TAG")), "topicSysFlag": "0"}
            ext |= {"order": rng.choice(("false", "false", "true"))}
            return encode_request(RequestCode.UPDATE_AND_CREATE_TOPIC, number, ext)
        case 1:
            return encode_request(RequestCode.DELETE_TOPIC_IN_BROKER, number, {"topic": "made-later"})
        case 2:
            return encode_request(RequestCode.UPDATE_BROKER_CONFIG, number, body=b"flushDelayOffsetInterval=10000\n")
        case 3:
            return encode_request(RequestCode.GET_MAX_OFFSET, number, {"topic": name, "queueId": "1"})
    return encode_request(
        RequestCode.QUERY_MESSAGE,
        number,
        {"topic": name, "key": "order-17", "maxNum": "5", "beginTimestamp": "0", "endTimestamp": str(1 << 60)},
    )
