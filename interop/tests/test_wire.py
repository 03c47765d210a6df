"""Bare requests: every answer of Apache's servers decodes with our types, and our servers answer the same."""

from __future__ import annotations

import asyncio
import re
from enum import Enum
from typing import Any, Final

import msgspec
import pytest

from interop.conversation import Exchange, hold_conversation
from interop.jars import Jars
from interop.report import Case, Report
from interop.tests.conftest import apache_cluster, pyromq_cluster
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
    "heartbeat": "no heartbeats of version 2, so clients send full ones",
    "heartbeat again": "no heartbeats of version 2, so clients send full ones",
    "heartbeat of a second member": "no heartbeats of version 2, so clients send full ones",
    "name server config": "only the settings that PyroMQ has",
    "broker config": "only the settings that PyroMQ has",
    "runtime info": "only what PyroMQ can say",
    "all topics": "no topics for transactions in RocksDB",
    "topics of a cluster": "no topics for transactions in RocksDB",
    "system topics of the broker": "no topics for transactions in RocksDB and for traces",
}
TO_FIX: Final[dict[str, str]] = {
    "create topic with bad attributes": "unknown attributes are stored; Apache refuses with code 1",
    "group config of an unknown group": "code 26; Apache creates the group and answers with it",
    "send batch": "no transactionId; Apache has the batch's UNIQ_KEY in it",
    "all producers": "lastUpdateTimestamp is not a wall clock time, remoteIP has another form",
    "query offset of an empty queue": "0; Apache answers 22, so a new group asks for the end",
    "query offset of an unknown topic": "0; Apache answers 22",
    "query by an unknown key": "no ext fields beside code 22; Apache has zeros",
    "query by key in an unknown topic": "no ext fields beside code 22; Apache has zeros",
    "consume stats": "pullOffset is 0; Apache tells how far the group has pulled",
    "all topic configs": "another data version; topics for transactions in RocksDB are missing",
    "all group configs": "another data version; no totalGroupNum",
    "all consumer offsets": "neither groupTopicMap nor pullOffsetTable",
    "topics of a group": "no brokerAddr",
    "consume time span": "no times as text, 0 instead of -1 for queues without messages",
    "topic stats": "another topicPutTps",
    "all delay offsets": "the data version has no time yet",
    "consume stats of the broker": "other rates, pullOffset is 0",
    "query consume queue": "other sizes, since records have checksums",
    "broker stats data": "counts at once; Apache only after its first sample",
    "reset offsets of nobody": "code 0; Apache answers 26 for a group that it does not know",
}
_OPTIONAL_EXT: Final = {"groupSysFlag", "topicSysFlag", "MSG_REGION", "TRACE_ON", "ON_DISK"}  # no client minds
_VOLATILE_EXT: Final = re.compile(r"msgId|transactionId|indexLastUpdate.*|timestamp|version|total.*Num")
_ADDRESS: Final = re.compile(r"127\.0\.0\.1:\d+")


@pytest.fixture(scope="module")
def conversations(jars: Jars, tmp_path_factory: pytest.TempPathFactory) -> Conversations:
    with apache_cluster(jars, tmp_path_factory.mktemp("wire-apache")) as apache:
        with_apache = asyncio.run(hold_conversation(apache.nameserver, apache.broker))
    with pyromq_cluster(tmp_path_factory.mktemp("wire-pyromq")) as pyromq:
        with_pyromq = asyncio.run(hold_conversation(pyromq.nameserver, pyromq.broker))
    return {"apache": with_apache, "pyromq": with_pyromq}


@pytest.mark.parametrize("make", ["apache", "pyromq"])
def test_every_answer_decodes_with_our_types(conversations: Conversations, make: str, report: Report) -> None:
    exchanges = conversations[make]
    undecoded = {name: exchange.failure for name, exchange in exchanges.items() if exchange.failure}
    if make == "apache":
        for name, exchange in exchanges.items():
            outcome = "fails" if exchange.failure else "ok"
            notes = [exchange.failure] if exchange.failure else []
            report.add(Case(SECTION, name, "apache", outcome, notes))
    assert not undecoded


def test_both_answer_the_same(conversations: Conversations, report: Report) -> None:
    wrong: list[str] = []
    for name, theirs in conversations["apache"].items():
        ours = conversations["pyromq"][name]
        differences = _differences(theirs, ours)
        outcome = "ok"
        if ours.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED != theirs.code:
            outcome, differences = "expected", ["this request is not served yet"]
        elif differences and name in DELIBERATE:
            outcome, differences = "expected", [DELIBERATE[name]]
        elif differences and name in TO_FIX:
            outcome, differences = "differs", [TO_FIX[name]]
        elif differences:
            outcome = "differs"
            wrong += [f"{name}: {each}" for each in differences]
        report.add(Case(SECTION, name, "pyromq", outcome, differences))
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
            return {str(key): _shape(value) for key, value in sorted(body.items(), key=str)}
        case list() | tuple() | set() | frozenset():
            return sorted((_shape(each) for each in body), key=str)
        case str():
            return _ADDRESS.sub("HOST", body)
        case Enum():
            return body.name
        case bool() | None:
            return body
        case int() | float():
            return "time" if isinstance(body, int) and body > 10**12 else body
        case _:
            return type(body).__name__


def _record(record: Record) -> tuple[Any, ...]:
    properties = decode_properties(record.properties)
    names = sorted(properties.keys() - {"__CRC32#"})
    return record.queue_id, record.offset, record.body, record.topic, record.sys_flag, names
