"""The audit log of a broker: what operators did to topics, groups, offsets, settings, users; and what was refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyromq import Admin, Credentials, Message, Producer, PushConsumer
from pyromq.broker.base.settings import BrokerSettings
from pyromq.cli.main import main
from pyromq.client.core.client import Client
from pyromq.errors import MQError
from pyromq.operate.offsets import EARLIEST, LATEST
from pyromq.security.audit import AuditEntry, AuditOutcome, AuditSearch
from pyromq.security.secret import Secret
from pyromq.security.settings import AccessSettings
from pyromq.settings import ClientSettings
from pyromq.testing import LoopbackBroker
from pyromq.testing.loopback import SMALL_FILES
from pyromq.wire.codes import RequestCode
from pyromq.wire.headers.shared import TopicHeader

pytestmark = pytest.mark.integration

OPS = Credentials("ops", "ops-secret-text")
GUARDED = AccessSettings(
    enabled=True,
    initial_user=Secret(json.dumps({"username": "ops", "password": "ops-secret-text"})),
    inner_credentials=Secret(json.dumps({"accessKey": "inner", "secretKey": "inner-secret-text"})),
)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[LoopbackBroker]:
    with LoopbackBroker(BrokerSettings(store=SMALL_FILES), folder=tmp_path / "data") as broker:
        yield broker


def shown(entries: list[AuditEntry]) -> list[tuple[str, str]]:
    return [(entry.action, entry.outcome.value) for entry in entries]


def test_what_an_operator_does_is_told_with_before_and_after(broker: LoopbackBroker) -> None:
    with Admin(broker.nameserver) as admin:
        admin.topics.create("orders", queues=2)
        admin.topics.create("orders", queues=4)
        admin.groups.create("billing")
        admin.topics.delete("orders")
        deleted, group, changed, created = admin.audit.list()
    assert shown([deleted, group, changed, created]) == [
        ("DELETE_TOPIC_IN_BROKER", "done"),
        ("UPDATE_AND_CREATE_SUBSCRIPTIONGROUP", "done"),
        ("UPDATE_AND_CREATE_TOPIC", "done"),
        ("UPDATE_AND_CREATE_TOPIC", "done"),
    ]
    assert created.resources == ("Topic:orders",) and created.address == "127.0.0.1" and created.server == "broker-a"
    before, after = created.changes["Topic:orders"]
    assert before is None and after["writeQueueNums"] == 2
    before, after = changed.changes["Topic:orders"]
    assert (before["writeQueueNums"], after["writeQueueNums"]) == (2, 4)
    assert group.changes["Group:billing"][0] is None
    assert deleted.changes["Topic:orders"][1] is None


def test_a_reset_is_told_with_the_offsets(broker: LoopbackBroker) -> None:
    with Producer(broker.nameserver, group="shop") as producer, Admin(broker.nameserver) as admin:
        admin.topics.create("orders", queues=1)
        admin.groups.create("billing")
        for _ in range(3):
            producer.send(Message("orders", b"42"))
        admin.offsets.reset("billing", "orders", to_ms=LATEST)
        admin.offsets.reset("billing", "orders", to_ms=EARLIEST)
        last, first = admin.audit.list(AuditSearch(resource="Group:billing", limit=2))
    assert last.changes["Offsets:orders@billing"][0] == first.changes["Offsets:orders@billing"][1] == {"0": 3}


def test_what_a_handler_refuses_is_told_with_the_reason(broker: LoopbackBroker) -> None:
    with Admin(broker.nameserver) as admin:
        with pytest.raises(MQError):
            admin.topics.delete("TBW102")
        (entry,) = admin.audit.list(AuditSearch(outcome="refused"))
    assert entry.outcome is AuditOutcome.REFUSED and "TBW102" in entry.reason


def test_sends_pulls_and_commits_are_not_for_the_audit(broker: LoopbackBroker) -> None:
    with Producer(broker.nameserver, group="shop") as producer:
        producer.send(Message("orders", b"42"))
    PushConsumer(
        broker.nameserver, group="billing", listener=lambda message: None, topics="orders", start="earliest"
    ).run(messages=1)
    with Admin(broker.nameserver) as admin:
        assert admin.audit.list() == []


def test_the_log_outlives_the_broker_and_the_command_reads_both(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = BrokerSettings(store=SMALL_FILES)
    with LoopbackBroker(settings, folder=tmp_path / "data") as broker, Admin(broker.nameserver) as admin:
        admin.topics.create("orders", queues=2)
        admin.topics.create("orders", queues=4)
        assert main(["audit", "--limit", "1", "--nameserver", broker.nameserver, "-o", "csv"]) == 0
        assert len(capsys.readouterr().out.splitlines()) == 2
    assert main(["audit", "--data", str(tmp_path / "data"), "-o", "csv"]) == 0
    out = capsys.readouterr().out
    assert "Topic:orders created" in out and "writeQueueNums: 2 → 4" in out
    assert main(["audit", "--data", str(tmp_path / "nowhere")]) == 1
    assert main(["audit", "--data", str(tmp_path / "data"), "--since", "soon"]) == 1


def test_with_access_control_the_log_has_users_and_never_a_secret(tmp_path: Path) -> None:
    settings = BrokerSettings(store=SMALL_FILES, access=GUARDED)
    with LoopbackBroker(settings, folder=tmp_path / "data") as broker:
        with Admin(broker.nameserver, credentials=OPS) as admin:
            admin.access.create_user("billing", "billing-secret-text")
            admin.topics.create("orders", queues=1)
        for credentials in (Credentials("billing", "billing-secret-text"), Credentials("ops", "wrong")):
            asyncio.run(_delete(broker.address, "orders", credentials))
        with Admin(broker.nameserver, credentials=OPS) as admin:
            entries = admin.audit.list()
    done = {(entry.action, entry.user) for entry in entries if entry.outcome is AuditOutcome.DONE}
    assert ("AUTH_CREATE_USER", "ops") in done and ("UPDATE_AND_CREATE_TOPIC", "ops") in done
    refused = [(entry.action, entry.user) for entry in entries if entry.outcome is AuditOutcome.REFUSED]
    assert ("DELETE_TOPIC_IN_BROKER", "billing") in refused
    assert any(user == "" for _, user in refused), "a name that was not verified is nobody's"
    text = b"".join(path.read_bytes() for path in (tmp_path / "data" / "audit").iterdir())
    assert b"secret-text" not in text


async def _delete(address: str, topic: str, credentials: Credentials) -> None:
    """Asks the broker without a name server, and is refused."""
    async with Client(ClientSettings(nameservers=address, credentials=credentials)) as client:
        with pytest.raises(MQError):
            await client.ask(client.brokers.link(address), RequestCode.DELETE_TOPIC_IN_BROKER, TopicHeader(topic=topic))
