"""Fuzz of all request codes with hostile field values, in both header forms, against ``pyromq up`` as a process.

    python -m tests.hostile.fuzz --requests 1000000 --seed 7       the long run; one summary line at its end
    python -m tests.hostile.fuzz --seed 7 --show 123456            what request 123456 of that run is
    python -m tests.hostile.fuzz --acl                             with access control, most requests signed

Request ``n`` of a run depends on the seed and ``n`` only, so what a run finds can be sent again alone. Requests are
pipelined over several connections in windows; a window that the server cuts is sent again one request at a time, so
that the cut has one cause. The rule: a request is answered once, a one-way request never, and where the server closes
the connection instead its log says why.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import struct
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec

from pyromq.errors import MQError
from pyromq.wire.codes import RequestCode
from pyromq.wire.command import encode_request, encode_response
from pyromq.wire.ext import value_text
from pyromq.wire.frame import Frame, FrameDecoder, SerializeType
from pyromq.wire.headers import REQUEST_HEADERS
from pyromq.wire.received import decode_untyped
from pyromq.wire.signature import ACCESS_KEY, SIGNATURE, sign
from tests.hostile.rig import Victim, victim

LANES: Final = 6
WINDOW: Final = 64
PATIENCE_S: Final = 60
WAITING_PULL_MS: Final = 2_000  # a pull that may wait longer than this need not be answered within the run
_ONEWAY, _RESPONSE, _SUSPEND = 2, 1, 2
_PULLS: Final = (RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE)
_UNKNOWN_CODES: Final = (-1, 0, 1, 9, 999, 32_767, 65_535, 2**31 - 1, -(2**31))
_CODES: Final = (*map(int, RequestCode), *_UNKNOWN_CODES)
_NAMESERVER_CODES: Final = (
    *range(100, 107),
    205,
    206,
    216,
    217,
    219,
    224,
    304,
    *range(311, 314),
    318,
    319,
    322,
    327,
    901,
    904,
)

_NAMES: Final = (
    "fuzz", "fuzz-a", "fuzz-b", "TBW102", "%RETRY%fuzz", "%DLQ%fuzz", "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC",
    "CID_RMQ_SYS_TRANS", "rmq_sys_wheel_timer", "DefaultCluster", "../../etc/passwd", "a/b", ".", "", " ", "x" * 127,
    "x" * 128, "x" * 300, "%", "a|b", "名前", "\u202e\u0000\x1b[2J", "\r\nX: y", "𝔘" * 40, "NaN", "null", "{}",
)  # fmt: skip
_NUMBERS: Final = (
    "0", "1", "-1", "3", "7", "16", "128", "00", "+1", "1e3", "1e400", "NaN", "Infinity", "-Infinity", "0x10", " 1",
    "1.5", "1 ", "", "true", "١٢", "2147483647", "2147483648", "-2147483648", "-2147483649", "4294967296",
    "9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809", "9" * 400, "1_000",
)  # fmt: skip
_WRONG_TYPES: Final[tuple[object, ...]] = (None, True, False, 0, -1, 1.5, 1e308, 2**63, -(2**63), 2**70)
_NESTED: Final[tuple[object, ...]] = ([], {}, [1, "a"], {"a": {"b": []}}, [[[[]]]])  # no header may hold these
_PROPERTIES: Final = (
    "TAGS\x01A\x02",
    "TAGS\x01A\x02TAGS\x01\x02__CRC32#\x01TAGS\x01",
    "KEYS\x01a b\x02__CRC32#\x010123456789",
)
_TEXTS: Final = (
    *_NAMES,
    *_PROPERTIES,
    "*",
    "TagA || TagB",
    "a > 1 AND b IS NOT NULL",
    "TAGS LIKE",
    "(" * 400,
    "a=1 OR " * 300,
)


@dataclass(frozen=True)
class Request:
    """One request, and what its sender may expect."""

    number: int
    to_nameserver: bool
    code: int
    frame: bytes
    correlation_id: int
    is_oneway: bool
    may_wait: bool


@dataclass
class Report:
    """What a run did. ``problems`` must stay empty."""

    sent: int = 0
    answered: int = 0
    oneway: int = 0
    closed: int = 0
    waiting: int = 0
    codes: Counter[int] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    closed_peers: list[str] = field(default_factory=list)
    before_mb: float = 0.0
    after_mb: float = 0.0
    took_s: float = 0.0

    def line(self, seed: int) -> str:
        counts = f"answered={self.answered} oneway={self.oneway} closed={self.closed} waiting={self.waiting}"
        memory = f"memory_mb={self.before_mb:.0f}->{self.after_mb:.0f}"
        codes = "codes=" + ",".join(f"{code}:{count}" for code, count in self.codes.most_common(6))
        end = f"problems={len(self.problems)} {memory} took_s={self.took_s:.0f}"
        return f"fuzz seed={seed} requests={self.sent} {counts} {codes} {end}"


# --- what is sent --------------------------------------------------------------------------------------------------


def request_of(seed: int, number: int, *, acl: bool = False) -> Request:
    """Request ``number`` of the run with that seed; ``acl``: as users of a guarded server send it."""
    rng = Random(seed * 1_000_003 + number)
    code = rng.choice(_CODES if rng.random() < 0.3 else _SERVED_CODES)
    to_nameserver = rng.random() < (0.6 if code in _NAMESERVER_CODES else 0.05)
    correlation_id = number % 2**31
    ext = _ext(rng, code)
    is_oneway = rng.random() < 0.1
    flag = (_ONEWAY if is_oneway else 0) | (rng.choice((4, 8, 1 << 20, 1 << 30)) if rng.random() < 0.02 else 0)
    body = _body(rng, code)
    if acl:
        ext = _signed(Random(seed * 7_000_003 + number), ext, body)
    is_binary = rng.random() < 0.4
    if is_binary:
        header = _binary_header(rng, code, correlation_id, flag, ext)
    else:
        header = _json_header(rng, code, correlation_id, flag, ext)
    mark = 1 if is_binary else 0
    if rng.random() < 0.002:
        header = _damaged(rng, header)
        code, correlation_id, is_oneway = _as_read(header, mark, (code, correlation_id, is_oneway))
    frame = struct.pack(">II", 4 + len(header) + len(body), mark << 24 | len(header)) + header + body
    return Request(number, to_nameserver, code, frame, correlation_id, is_oneway, _may_wait(code, ext))


USERS: Final = {"fuzz-root": "fuzz-root-secret", "fuzz-user": "fuzz-user-secret"}
ACL_FLAGS: Final = (
    *("--set", "broker.access.enabled=true"),
    *("--set", 'broker.access.initial_user={"username":"fuzz-root","password":"fuzz-root-secret"}'),
    *("--set", 'broker.access.inner_credentials={"accessKey":"fuzz-root","secretKey":"fuzz-root-secret"}'),
    *("--set", "nameserver.access.enabled=true"),
    *("--set", 'nameserver.access.initial_user={"username":"fuzz-root","password":"fuzz-root-secret"}'),
)


def _signed(rng: Random, ext: dict[str, object], body: bytes) -> dict[str, object]:
    """Mostly by who may do everything, so that handlers see it; else by nobody, somebody unknown, or badly."""
    chance = rng.random()
    if chance < 0.1:
        return ext
    user = rng.choice(("fuzz-root", "fuzz-user", "nobody", "", "\x00", "x" * 5_000)) if chance < 0.3 else "fuzz-root"
    fields: dict[str, object] = {**ext, ACCESS_KEY: user}
    texts = {name: value_text(value) for name, value in fields.items() if isinstance(value, str | int | float | bool)}
    signature: object = sign(texts, body, USERS.get(user, "guess"))
    if chance > 0.95:
        signature = rng.choice(("", "AAAA", "=" * 40, "é" * 27, "x" * 70_000, signature, 7, None, True))
    return {**fields, SIGNATURE: signature}


def _ext(rng: Random, code: int) -> dict[str, object]:
    header = REQUEST_HEADERS.get(code)
    ext: dict[str, object] = {}
    for each in msgspec.structs.fields(header) if header else ():
        if rng.random() < 0.93:
            ext[each.encode_name] = _value(rng, each)
    if rng.random() < 0.03:
        ext[rng.choice(_TEXTS)] = rng.choice(_TEXTS)
    if rng.random() < 0.002:
        ext.update({f"more{number}": "v" for number in range(rng.choice((100, 5_000)))})
    return ext


def _value(rng: Random, wanted: msgspec.structs.FieldInfo) -> object:
    """Mostly something that gets past the first check, so that the second and third see it."""
    kind = str(wanted.type)
    chance = rng.random()
    if chance < 0.001:
        return rng.choice(_NESTED)
    if chance < 0.02:
        return rng.choice(_WRONG_TYPES)
    if chance < 0.025:
        return rng.choice("xé\x01{[") * rng.choice((1_000, 40_000))
    if chance < 0.10:
        return rng.choice(_NUMBERS if "str" in kind else _TEXTS)
    if "bool" in kind:
        return rng.choice(("true", "false", "TRUE", "1", "maybe"))
    if "str" in kind:
        return rng.choice(_TEXTS if chance < 0.4 else _NAMES[:4])
    return rng.choice(_NUMBERS if chance < 0.4 else _NUMBERS[:6])


def _body(rng: Random, code: int) -> bytes:
    chance = rng.random()
    if chance < 0.4:
        return json.dumps(_document(rng, code), ensure_ascii=False).encode("utf-8", "surrogatepass")
    if chance < 0.7:
        return b""
    if chance < 0.75:
        return rng.randbytes(rng.randrange(300))
    if chance < 0.78:
        opening, closing = rng.choice((("[", "]"), ('{"a":', "}"), ("{[", "]}")))
        depth = rng.choice((50, 1_000, 20_000))
        return (opening * depth + (closing * depth if rng.random() < 0.5 else "")).encode()
    if chance < 0.8:
        return b"\xff\xfe" + rng.choice((b"{", b'"', b"\x00")) * rng.choice((1, 5_000))
    if chance < 0.805:
        return bytes(rng.choice((65_536, 300_000)))
    return rng.choice(
        (b"plain", b"{}", b"[]", b"null", b"0", b'"', b"a=b\nc=d\n", b"=\n\n=", b'{"a":NaN}', b"\x00\x00\x00\x10")
    )


_QUEUE: Final[dict[str, object]] = {"brokerName": "broker-a", "queueId": 0, "topic": "fuzz"}
_SUBSCRIPTION: Final[dict[str, object]] = {
    "classFilterMode": False, "codeSet": [1], "expressionType": "TAG", "subString": "*", "subVersion": 1,
    "tagsSet": ["a"], "topic": "fuzz",
}  # fmt: skip
_CONSUMER: Final[dict[str, object]] = {
    "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET", "consumeType": "CONSUME_PASSIVELY", "groupName": "fuzz",
    "messageModel": "CLUSTERING", "subscriptionDataSet": [_SUBSCRIPTION], "unitMode": False,
}  # fmt: skip
_TOPIC: Final[dict[str, object]] = {
    "topicName": "fuzz", "readQueueNums": 4, "writeQueueNums": 4, "perm": 6, "topicFilterType": "SINGLE_TAG",
    "topicSysFlag": 0, "order": False, "attributes": {"+message.type": "NORMAL"},
}  # fmt: skip
_GROUP: Final[dict[str, object]] = {
    "groupName": "fuzz", "consumeEnable": True, "retryQueueNums": 1, "retryMaxTimes": 16, "brokerId": 0,
    "whichBrokerWhenConsumeSlowly": 1, "groupRetryPolicy": {"type": "CUSTOMIZED"}, "attributes": {},
}  # fmt: skip
_DOCUMENTS: Final[dict[int, dict[str, object]]] = {
    RequestCode.HEART_BEAT: {
        "clientID": "fuzz@1", "consumerDataSet": [_CONSUMER], "producerDataSet": [{"groupName": "fuzz"}],
    },
    RequestCode.CHECK_CLIENT_CONFIG: {"clientId": "fuzz@1", "group": "fuzz", "subscriptionData": _SUBSCRIPTION},
    RequestCode.LOCK_BATCH_MQ: {"clientId": "fuzz@1", "consumerGroup": "fuzz", "mqSet": [_QUEUE]},
    RequestCode.UNLOCK_BATCH_MQ: {"clientId": "fuzz@1", "consumerGroup": "fuzz", "mqSet": [_QUEUE]},
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: {"topicConfigList": [_TOPIC, _TOPIC]},
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: _GROUP,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: {"groupConfigList": [_GROUP, _GROUP]},
    RequestCode.QUERY_ASSIGNMENT: {
        "clientId": "fuzz@1", "consumerGroup": "fuzz", "topic": "fuzz", "strategyName": "AVG",
        "messageModel": "CLUSTERING",
    },
    RequestCode.SET_MESSAGE_REQUEST_MODE: {
        "topic": "fuzz", "consumerGroup": "fuzz", "mode": "PULL", "popShareQueueNum": 0,
    },
    RequestCode.REGISTER_BROKER: {
        "topicConfigSerializeWrapper": {
            "topicConfigTable": {"fuzz": _TOPIC}, "dataVersion": {"counter": 1, "timestamp": 1, "stateVersion": 0},
        },
        "filterServerList": [],
    },
}  # fmt: skip


_SERVED_CODES: Final = (
    *(int(code) for code in REQUEST_HEADERS if code < 3_000),
    *map(int, _DOCUMENTS),
    *_NAMESERVER_CODES,
)


def _document(rng: Random, code: int) -> object:
    """The body that the code knows, with a few of its values replaced; or any other."""
    wanted = _DOCUMENTS.get(code) or rng.choice(tuple(_DOCUMENTS.values()))
    return _mutated(rng, wanted, 0.12)


def _mutated(rng: Random, value: object, chance: float) -> object:
    if rng.random() < chance:
        return rng.choice((*_WRONG_TYPES, *_NESTED, *_TEXTS, *_NUMBERS))
    if isinstance(value, dict):
        kept = {key: _mutated(rng, each, chance) for key, each in value.items() if rng.random() < 0.95}
        return {**kept, rng.choice(_TEXTS): rng.choice(_WRONG_TYPES)} if rng.random() < chance / 2 else kept
    if isinstance(value, list):
        repeated = [_mutated(rng, each, chance) for each in value]
        return repeated * rng.choice((1, 1, 1, 2, 200)) if rng.random() < chance else repeated
    return value


def _json_header(rng: Random, code: int, correlation_id: int, flag: int, ext: dict[str, object]) -> bytes:
    header: dict[str, object] = {
        "code": code, "extFields": ext, "flag": flag, "language": rng.choice(("JAVA", "GO", "名", "PYTHON", 12)),
        "opaque": correlation_id, "serializeTypeCurrentRPC": "JSON", "version": rng.choice((0, 399, 493, -1)),
    }  # fmt: skip
    if rng.random() < 0.05:
        header["remark"] = rng.choice(_TEXTS)
    if rng.random() < 0.01:
        header.pop(rng.choice(("language", "version", "extFields", "serializeTypeCurrentRPC")))
    return json.dumps(header, ensure_ascii=rng.random() < 0.5, separators=(",", ":")).encode("utf-8", "surrogatepass")


def _binary_header(rng: Random, code: int, correlation_id: int, flag: int, ext: dict[str, object]) -> bytes:
    """With lengths that are true; ``_damaged`` sees to the others. A code has two bytes here."""
    fields = b"".join(
        struct.pack(">H", len(key)) + key + struct.pack(">I", len(value)) + value
        for key, value in ((_bytes(name)[:65_535], _bytes(text)) for name, text in ext.items() if text is not None)
    )
    remark = _bytes(rng.choice(_TEXTS)) if rng.random() < 0.05 else b""
    fixed = struct.pack(
        ">hBHiiI", _short(code), rng.randrange(256), rng.randrange(65_536), correlation_id, flag, len(remark)
    )
    return fixed + remark + struct.pack(">I", len(fields)) + fields


def _short(code: int) -> int:
    return (code + 0x8000) % 0x10000 - 0x8000


def _bytes(value: object) -> bytes:
    return (value if isinstance(value, str) else json.dumps(value)).encode("utf-8", "surrogatepass")


def _damaged(rng: Random, header: bytes) -> bytes:
    at = rng.randrange(len(header))
    return rng.choice((header[:at], header[:at] + rng.randbytes(4) + header[at + 4 :], b"", header + b"\x00"))


def _as_read(header: bytes, mark: int, meant: tuple[int, int, bool]) -> tuple[int, int, bool]:
    """Code, id and whether nobody waits, as a server reads them from a damaged header; as meant if it cannot."""
    try:
        read = decode_untyped(Frame(SerializeType(mark), header))
    except MQError:
        return meant
    return read.code, read.correlation_id, read.flag & (_ONEWAY | _RESPONSE) != 0


def _may_wait(code: int, ext: dict[str, object]) -> bool:
    """A pull that asks to be kept waiting may be kept: that is what it asks for."""
    return code in _PULLS and _number(ext.get("suspendTimeoutMillis")) > WAITING_PULL_MS


def _number(value: object) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return 0.0 if value is None else float("inf")


_PROBE: Final = Request(-1, False, 0, encode_request(0, 2**31 - 1), 2**31 - 1, is_oneway=False, may_wait=False)


# --- sending -------------------------------------------------------------------------------------------------------


class Lane:
    """One connection after the other to one server, and the requests that wait for answers on it."""

    def __init__(self, address: str, report: Report) -> None:
        host, port = address.rsplit(":", 1)
        self._address, self._report = (host, int(port)), report
        self._writer: asyncio.StreamWriter | None = None
        self._oneway: set[int] = set()

    async def send(self, window: list[Request], *, probed: bool = False) -> bool:
        """Whether the server kept the connection; then every request of the window got what it may expect.

        With ``probed`` an honest request follows, so that a cut after a one-way request is noticed, too.
        """
        reader, writer = await self._open()
        waiting = {each.correlation_id: each for each in window if not each.is_oneway}
        self._oneway = {each.correlation_id for each in window if each.is_oneway}
        answered = 0
        try:
            writer.write(b"".join(each.frame for each in window))
            if probed:
                writer.write(_PROBE.frame)
                waiting[_PROBE.correlation_id] = _PROBE
                answered -= 1
            async with asyncio.timeout(PATIENCE_S):
                while any(not each.may_wait for each in waiting.values()):
                    data = await reader.read(1 << 18)
                    if not data:
                        return await self._was_cut()
                    for frame in self._decoder.feed(data):
                        answered += self._take(decode_untyped(frame), waiting, writer)
        except (ConnectionError, BrokenPipeError):
            return await self._was_cut()
        except TimeoutError:
            late = [each for each in waiting.values() if not each.may_wait]
            self._report.problems += [f"request {each.number} (code {each.code}) was not answered" for each in late]
            await self.close()
        self._report.answered += answered
        self._report.oneway += len(self._oneway)
        self._report.waiting += sum(each.may_wait for each in waiting.values())
        if waiting:
            await self.close()  # pulls that wait go with their connection
        return True

    def _take(self, received: Any, waiting: dict[int, Request], writer: asyncio.StreamWriter) -> int:
        if not received.flag & _RESPONSE:  # the broker asks the client that a heartbeat told it about
            if not received.flag & _ONEWAY:
                writer.write(encode_response(received.correlation_id % 7, received.correlation_id, body=b'{"a":['))
            return 0
        number = received.correlation_id
        if number in self._oneway:
            self._report.problems.append(f"one-way request {number} was answered with code {received.code}")
        elif (request := waiting.pop(number, None)) is not None:
            self._report.codes[received.code] += 1
            if "internal error" in (received.remark or ""):
                text = f"request {number} (code {request.code}): {received.remark}"
                self._report.problems.append(text)
            return 1
        return 0

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._writer is None:
            self._reader, self._writer = await asyncio.open_connection(*self._address)
            self._decoder = FrameDecoder()
            self._peer = "{}:{}".format(*self._writer.get_extra_info("sockname")[:2])
        return self._reader, self._writer

    async def _was_cut(self) -> bool:
        self._report.closed_peers.append(self._peer)
        await self.close()
        return False

    async def close(self) -> None:
        if self._writer is not None:
            self._writer.transport.abort()
            self._writer = None


def distinct(requests: list[Request]) -> Iterator[list[Request]]:
    """The requests in parts that name no id twice: damage may give one the id of another, and answers tell no more."""
    window: dict[int, Request] = {}
    for each in requests:
        if each.correlation_id in window:
            yield list(window.values())
            window = {}
        window[each.correlation_id] = each
    if window:
        yield list(window.values())


async def run_lane(seed: int, numbers: range, server: Victim, report: Report, acl: bool = False) -> None:
    """The requests of ``numbers``, to both servers."""
    lanes = {True: Lane(server.nameserver, report), False: Lane(server.broker, report)}
    for begin in range(numbers.start, numbers.stop, WINDOW):
        requests = [request_of(seed, number, acl=acl) for number in range(begin, min(begin + WINDOW, numbers.stop))]
        for to_nameserver, lane in lanes.items():
            for window in distinct([each for each in requests if each.to_nameserver is to_nameserver]):
                report.sent += len(window)
                if not await lane.send(window):
                    for each in window:
                        if not await lane.send([each], probed=True):
                            report.closed += 1
    for lane in lanes.values():
        await lane.close()


async def fuzz(
    server: Victim,
    requests: int,
    seed: int,
    progress: Callable[[Report], None] | None = None,
    *,
    acl: bool = False,
) -> Report:
    """Sends them all; the report has what went wrong, log and memory of the server included."""
    report = Report(before_mb=server.rss_mb)
    began = time.perf_counter()
    share = -(-requests // LANES)
    lanes = [range(first, min(first + share, requests)) for first in range(0, requests, share)]
    work = asyncio.gather(*[run_lane(seed, numbers, server, report, acl) for numbers in lanes])
    while progress is not None and not work.done():
        await asyncio.wait([work], timeout=10)
        progress(report)
    await work
    report.took_s = time.perf_counter() - began
    if not server.is_running:
        report.problems.append(f"the server ended with code {server.exit_code}")
        return report
    report.after_mb = server.rss_mb
    log = server.log
    if "Traceback" in log:
        report.problems.append("the log has a traceback: " + log[log.index("Traceback") :][:3_000])
    unexplained = [peer for peer in report.closed_peers if f"peer={peer} " not in log]
    report.problems += [f"the connection of {peer} was closed without a word in the log" for peer in unexplained]
    return report


# --- as a command --------------------------------------------------------------------------------------------------


async def _run(requests: int, seed: int, *, acl: bool) -> Report:
    with tempfile.TemporaryDirectory(prefix="pyromq-fuzz-") as folder:
        async with victim(Path(folder), *(ACL_FLAGS if acl else ())) as server:
            show = (lambda report: print(report.line(seed), file=sys.stderr)) if sys.stderr.isatty() else None
            return await fuzz(server, requests, seed, show, acl=acl)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.hostile.fuzz", description=__doc__)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, metavar="N", help="show request N of the run instead")
    parser.add_argument("--acl", action="store_true", help="with access control on")
    given = parser.parse_args()
    if given.show is not None:
        print(request_of(given.seed, given.show, acl=given.acl))
        return 0
    report = asyncio.run(_run(given.requests, given.seed, acl=given.acl))
    for problem in report.problems[:20]:
        print(problem, file=sys.stderr)
    print(report.line(given.seed))
    return 1 if report.problems else 0


if __name__ == "__main__":
    sys.exit(main())
