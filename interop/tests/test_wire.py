"""Bare requests: every response of Apache's servers decodes with our types, and our servers answer the same."""

from __future__ import annotations

import asyncio
import re
from enum import Enum
from typing import Any, Final

import msgspec
import pytest

from interop.conversation import Exchange, hold_conversation
from interop.jars import Jars
from interop.report import Case
from interop.tests.conftest import Fill, apache_cluster, pyromq_cluster
from pyromq.wire.codes import ResponseCode
from pyromq.wire.properties import decode_properties
from pyromq.wire.record import Record

SECTION: Final = "PyroMQ's wire × servers, one answer each"
Conversations = dict[str, dict[str, Exchange]]

DELIBERATE: Final[dict[str, str]] = {
    "route without topic": "refused with the name of the missing field; Apache answers as for a topic named null",
    "send an empty body": "accepted; Apache fails with a NullPointerException",
    "send an empty batch": "refused as an illegal message; Apache fails with a NullPointerException",
    "pull with bad SQL": "refused; Apache serves everything unfiltered",
    "query offset of an empty queue": "0; Apache says that there is none, and a new group skips what arrives meanwhile",
    "update offset of a queue out of range": "refused: offsets are kept for queues that are there, up to their end",
    "group config of an unknown group": "code 26; Apache creates the group by being asked for it",
    "name server config": "only the settings that PyroMQ has",
    "broker config": "only the settings that PyroMQ has",
    "runtime info": "only what PyroMQ can say",
    "all topics": "no topics for transactions in RocksDB",
    "topics of a cluster": "no topics for transactions in RocksDB",
    "system topics of the broker": "no topics for transactions in RocksDB and for traces",
    "all topic configs": "no topics for transactions in RocksDB",
    "all group configs": "without the group that Apache created by being asked for it",
    "broker stats data": "counts at once; Apache only after its first sample",
    "consume stats of the broker": "pullOffset is told; Apache leaves it 0 here, and has less than nothing in flight",
    "query consume queue": "eval is told; Apache says false to all that has no entry in an extension file",
}
_OPTIONAL_EXT: Final = {  # no client minds
    *("groupSysFlag", "topicSysFlag", "MSG_REGION", "TRACE_ON", "ON_DISK"),
    "PYROMQ_FAILURE_STORY",
}
_VOLATILE_EXT: Final = re.compile(r"msgId|transactionId|indexLastUpdate.*|timestamp|version|total.*Num")
_VOLATILE: Final = {"counter", "physicSize", "physicOffset", "delayTime", "masterCommitLogMaxOffset"}
_ADDRESS: Final = re.compile(r"127\.0\.0\.1:\d+")
_TIME_TEXT: Final = re.compile(r"20\d\d-\d\d-\d\d#\d\d:\d\d:\d\d:\d{3}")


@pytest.fixture(scope="module")
def conversations(jars: Jars, tmp_path_factory: pytest.TempPathFactory) -> Conversations:
    with apache_cluster(jars, tmp_path_factory.mktemp("wire-apache")) as apache:
        with_apache = asyncio.run(hold_conversation(apache.nameserver, apache.broker))
    with pyromq_cluster(tmp_path_factory.mktemp("wire-pyromq")) as pyromq:
        with_pyromq = asyncio.run(hold_conversation(pyromq.nameserver, pyromq.broker))
    return {"apache": with_apache, "pyromq": with_pyromq}


@pytest.mark.parametrize("make", ["apache", "pyromq"])
def test_every_response_decodes_with_our_types(conversations: Conversations, make: str, fill: Fill) -> None:
    exchanges = conversations[make]
    undecoded = {name: exchange.failure for name, exchange in exchanges.items() if exchange.failure}
    if make == "apache":
        for name, exchange in exchanges.items():
            outcome = "fails" if exchange.failure else "ok"
            notes = [exchange.failure] if exchange.failure else []
            fill(Case(SECTION, name, "Apache", outcome, notes))
    assert not undecoded


def test_both_answer_the_same(conversations: Conversations, fill: Fill) -> None:
    wrong: list[str] = []
    for name, theirs in conversations["apache"].items():
        ours = conversations["pyromq"][name]
        differences = _differences(theirs, ours)
        outcome = "ok"
        if ours.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED != theirs.code:
            outcome, differences = "lacks", ["this request is not served yet"]
        elif differences and name in DELIBERATE:
            outcome, differences = "deliberate", [DELIBERATE[name]]
        elif differences:
            outcome = "differs"
            wrong += [f"{name}: {each}" for each in differences]
        fill(Case(SECTION, name, "PyroMQ", outcome, differences))
    assert not wrong, "\n".join(wrong)


def _differences(theirs: Exchange, ours: Exchange) -> list[str]:
    if theirs.code != ours.code:
        return [f"code {ours.code} ({ours.remark}), Apache has {theirs.code} ({(theirs.remark or '')[:80]})"]
    found = []
    if theirs.code == ResponseCode.SUCCESS and _shape(theirs.body) != _shape(ours.body):
        found.append(f"body {_shape(ours.body)}, Apache has {_shape(theirs.body)}"[:400])
    if _ext(theirs) != _ext(ours):
        pairs = set(_ext(theirs).items()) ^ set(_ext(ours).items())
        names = sorted({name for name, _ in pairs})
        found.append(", ".join(f"{name} {ours.ext.get(name)!r}, Apache has {theirs.ext.get(name)!r}" for name in names))
    return found


def _ext(exchange: Exchange) -> dict[str, str]:
    return {
        name: "" if _VOLATILE_EXT.fullmatch(name) else _ADDRESS.sub("HOST", value)
        for name, value in exchange.ext.items()
        if name not in _OPTIONAL_EXT
    }


def _shape(body: Any) -> Any:
    """What of a body has to be the same with every server."""
    match body:
        case [Record(), *_]:
            return [_record(record) for record in body]
        case msgspec.Struct():
            return _shape(msgspec.structs.asdict(body))
        case dict():
            return {str(key): _shape(value) for key, value in sorted(body.items(), key=str) if key not in _VOLATILE}
        case list() | tuple() | set() | frozenset():
            return sorted((_shape(each) for each in body), key=str)
        case str():
            return _TIME_TEXT.sub("time", _ADDRESS.sub("HOST", body))
        case Enum():
            return body.name
        case bool() | None:
            return body
        case float():
            return "rate"
        case int():
            return "time" if body > 10**12 else body
        case _:
            return type(body).__name__


def _record(record: Record) -> tuple[Any, ...]:
    properties = decode_properties(record.properties)
    names = sorted(properties.keys() - {"__CRC32#"})
    return record.queue_id, record.offset, record.body, record.topic, record.sys_flag, names
