"""Exit codes of every command that talks to a cluster, as documented: one row of a table for each case.

0 done, 1 wrong usage, 2 not found, 3 refused, 4 unreachable or no response in time, 5 done in part or a finding
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyromq import Admin, Message, Producer
from pyromq.cli.main import app, main
from pyromq.testing import LoopbackBroker, ServerProcess

pytestmark = pytest.mark.integration

SENT = {"id": "7F0000010000000000000000000000AA"}  # until a message is sent

# one call of each command that needs a cluster; every name in it is there
CALLS = {
    "send": "send known body",
    "consume": "consume known --group readers --count 1",
    "tail": "tail known",
    "doctor": "doctor",
    "find": "find known",
    "sql": 'sql FROM"known"',
    "audit": "audit",
    "topic ls": "topic ls",
    "topic create": "topic create known --queues 4",
    "topic describe": "topic describe known",
    "topic history": "topic history known",
    "topic senders": "topic senders known",
    "topic retention": "topic retention known",
    "topic letters": "topic letters known",
    "topic delete": "topic delete doomed --yes",
    "group ls": "group ls",
    "group create": "group create known-group",
    "group lag": "group lag known-group",
    "group describe": "group describe known-group",
    "group reset": "group reset known-group --topic known --to-end --yes",
    "group park": "group park stuck --topic known --queue broker-a:0 --yes",
    "group delete": "group delete doomed-group --yes",
    "message get": "message get {id} --topic known",
    "message find": "message find --topic known --key k1",
    "message trace": "message trace {id} --topic known",
    "message explain": "message explain {id} --topic known",
    "message resend": "message resend {id} --topic known",
    "message consume-directly": "message consume-directly {id} --topic known --group known-group",
    "dlq ls": "dlq ls known-group",
    "dlq show": "dlq show known-group {id}",
    "dlq redrive": "dlq redrive known-group",
    "delay ls": "delay ls",
    "delay cancel": "delay cancel {id} --topic known --yes",
    "top": "top --once",
    "settings ls": "settings ls broker-a",
    "settings set": "settings set broker-a fileReservedTime=72 --yes",
    "tx ls": "tx ls",
    "cluster ls": "cluster ls",
    "cluster replication": "cluster replication",
    "cluster leases": "cluster leases --store etcd://127.0.0.1:1",
    "cluster switch": "cluster switch broker-a --store etcd://127.0.0.1:1",
    "cluster recover": "cluster recover broker-a --from 127.0.0.1:1 --store etcd://127.0.0.1:1",
    "cluster forget": "cluster forget broker-a 127.0.0.1:1 --store etcd://127.0.0.1:1",
}
# what does not need brokers, says what is wrong with them as its result, or names one that is not there
WITHOUT_BROKERS = {
    "cluster ls": 0,
    "cluster replication": 0,
    "cluster leases": 0,
    "cluster switch": 2,
    "doctor": 5,
    "settings ls": 2,
    "settings set": 2,
}
NOT_FOUND = [
    "tail nosuch",
    'sql FROM"nosuch"',
    "topic describe nosuch",
    "topic history nosuch",
    "group lag nosuch",
    "group lag known-group --topic nosuch",
    "group describe nosuch",
    "group reset nosuch --topic known --to-end --yes",
    "group reset known-group --topic nosuch --to-end --yes",
    "group park nosuch --topic known --queue broker-a:0 --yes",
    "message get 7F0000010000000000000000000000FF --topic known",
    "message get {id} --topic nosuch",
    "message find --topic known --key nosuch",
    "message trace nosuch",
    "message explain 7F0000010000000000000000000000FF --topic known",
    "message explain {id} --topic nosuch",
    "message consume-directly {id} --topic known --group nosuch",
    "message consume-directly 7F0000010000000000000000000000FF --topic known --group known-group",
    "message resend 7F0000010000000000000000000000FF --topic known",
    "dlq ls nosuch",
    "dlq show known-group 7F0000010000000000000000000000FF",
    "dlq redrive nosuch",
    "delay cancel 7F0000010000000000000000000000FF",
    "job undo nosuch --data {data}",
    "job resume nosuch --data {data}",
]
WRONG_USAGE = [
    "nosuch",
    "topic",
    "topic create",
    "topic create ../etc",
    "topic create known --queues 0",
    "topic delete known",
    "group create a/b",
    "group lag",
    "group reset known-group --topic known",
    "group delete known-group",
    "message get nonsense",
    "message find --topic known",
    "message consume-directly {id} --topic known",
    "delay cancel",
    "send",
    "send known --from-line 0",
    "send a/b body",
    "topic ls -o pictures",
    "job undo nosuch",
    "sql FROM",
    "sql VACUUM",
    "sql FROM/**/read_text('/etc/hostname')",
]


def commands() -> dict[str, Any]:
    """Of the command line, by their words: all that take a name server, work without access control and need no job."""
    found = dict[str, Any]()
    for name, command in app.all_commands().items():
        verbs = {f"{name} {verb}": each for verb, each in getattr(command, "commands", {}).items()}
        found |= verbs or {name: command}
    return {
        name: command
        for name, command in found.items()
        if any(parameter.name == "nameserver" for parameter in command.params)
        and not name.startswith(("pipeline", "acl", "context", "job"))
    }


@pytest.fixture(scope="module")
def cluster() -> Iterator[LoopbackBroker]:
    with LoopbackBroker() as broker:
        with Producer(broker.nameserver, group="shop") as producer, Admin(broker.nameserver) as admin:
            for topic in ("known", "doomed"):
                admin.topics.create(topic, queues=1)
            for group in ("known-group", "doomed-group", "stuck"):
                admin.groups.create(group)
            SENT["id"] = producer.send(Message("known", b"1", keys="k1")).message_id
        yield broker


@pytest.fixture(scope="module")
def lonely_nameserver() -> Iterator[str]:
    """A name server that no broker has registered with."""
    with ServerProcess("nameserver") as server:
        yield server.nameserver


class Typed:
    def __init__(self, capsys: pytest.CaptureFixture[str], data: Path) -> None:
        self._capsys = capsys
        self._data = data

    def __call__(self, words: str, nameserver: str) -> tuple[int, str]:
        """Exit code, and what standard error has."""
        given = words.format(**SENT, data=self._data).split()
        code = main([*given, "--nameserver", nameserver])
        return code, self._capsys.readouterr().err


@pytest.fixture
def typed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Typed:
    for name in ("PYROMQ_NAMESERVER", "NAMESRV_ADDR", "PYROMQ_DATA"):
        monkeypatch.delenv(name, raising=False)
    return Typed(capsys, tmp_path)


def test_every_command_that_needs_a_cluster_is_in_the_table() -> None:
    servers = ("broker", "up", "nameserver", "console", "follow", "failover", "run", "exporter")
    assert set(CALLS) == {name for name in commands() if name not in servers}


@pytest.mark.parametrize("words", NOT_FOUND)
def test_what_is_not_there_is_2(words: str, typed: Typed, cluster: LoopbackBroker) -> None:
    code, err = typed(words, cluster.nameserver)
    assert (code, err.startswith("pyromq: ") or "no message of topic" in err) == (2, True), err


@pytest.mark.parametrize("words", WRONG_USAGE)
def test_wrong_usage_is_1(words: str, typed: Typed, cluster: LoopbackBroker) -> None:
    code, err = typed(words, cluster.nameserver)
    assert code == 1 and err


@pytest.mark.parametrize("name", CALLS)
def test_a_name_server_that_does_not_answer_is_4(name: str, typed: Typed) -> None:
    code, err = typed(CALLS[name], "127.0.0.1:1")
    assert (code, "no name server answered" in err) == (4, True), err


@pytest.mark.parametrize("name", CALLS)
def test_the_port_of_a_broker_given_as_name_server_is_told(name: str, typed: Typed, cluster: LoopbackBroker) -> None:
    code, err = typed(CALLS[name], cluster.address)
    assert (code, f"{cluster.address} is a broker, not a name server" in err) == (1, True), err


@pytest.mark.parametrize("name", CALLS)
def test_a_cluster_without_brokers_is_4(name: str, typed: Typed, lonely_nameserver: str) -> None:
    code, err = typed(CALLS[name], lonely_nameserver)
    assert code == WITHOUT_BROKERS.get(name, 4), err


def test_a_member_that_is_not_connected_is_4(typed: Typed, cluster: LoopbackBroker) -> None:
    code, err = typed(CALLS["message consume-directly"], cluster.nameserver)
    assert (code, "no consumer of group known-group is connected" in err) == (4, True)
