"""Schemas of topics in the name servers' key-value table: Apache's keep them as ours do, and save them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from interop.apache import ApacheNameServer
from interop.jars import Jars
from interop.tests.conftest import case
from interop.world import Cluster
from pyromq import Admin, Producer
from pyromq.cli.main import main
from pyromq.errors import SchemaMismatchError
from pyromq.operate.reading.topic_schemas import SchemaNotFoundError, SchemaRefusedError

SECTION = "Schemas of topics"
DDL = "id bigint NOT NULL, amount decimal(10,2)"
WIDER = f"{DDL}, größe string"
AVRO = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[Admin]:
    with Admin(cluster.nameserver) as opened:
        yield opened


@case("set, show, check and delete", SECTION)
def test_versions_are_kept_and_checked(admin: Admin, cluster: Cluster) -> None:
    topic = "schema-orders"
    with pytest.raises(SchemaNotFoundError):
        admin.schemas.get(topic)
    first = admin.schemas.set(topic, DDL)
    second = admin.schemas.set(topic, WIDER)
    assert [each.version for each in admin.schemas.versions(topic)] == [2, 1]
    assert admin.schemas.get(topic) == second and admin.schemas.get(topic, 1) == first
    assert admin.schemas.get(topic).text == WIDER, "texts come back as they were, whatever is in them"
    (problem,) = admin.schemas.check(topic, "id string NOT NULL")
    assert "field id is string" in problem
    with pytest.raises(SchemaRefusedError):
        admin.schemas.set(topic, "id string NOT NULL")
    assert main(["topic", "schema", "show", topic, "-n", cluster.nameserver]) == 0
    assert main(["topic", "schema", "check", topic, "id string NOT NULL", "-n", cluster.nameserver]) == 5
    assert main(["topic", "schema", "delete", topic, "--yes", "-n", cluster.nameserver]) == 0
    with pytest.raises(SchemaNotFoundError):
        admin.schemas.get(topic)


@case("a producer sends by the schema", SECTION)
def test_a_producer_sends_by_the_schema(admin: Admin, cluster: Cluster) -> None:
    topic = "schema-packed"
    admin.topics.create(topic)
    admin.schemas.set(topic, AVRO, payload="avro")
    with Producer(cluster.nameserver, group="schema-shop") as producer:
        receipt = producer.send(topic, {"id": 7})
        with pytest.raises(SchemaMismatchError) as caught:
            producer.send(topic, {"id": "x"})
    assert (caught.value.version, caught.value.field) == (1, "id")
    (message,) = admin.messages.newest(topic, 1)
    assert (message.body, message.get("content_type")) == (b"\x0e", "application/avro")
    assert message.message_id == receipt.message_id
    admin.schemas.delete(topic)


@case("kept over a restart of Apache's name server", SECTION)
def test_apache_keeps_them_over_a_restart(jars: Jars, tmp_path: Path) -> None:
    with ApacheNameServer(jars, tmp_path / "namesrv") as names, Admin(names.address) as admin:
        admin.schemas.set("orders", WIDER)
    with ApacheNameServer(jars, tmp_path / "namesrv") as names, Admin(names.address) as admin:
        assert admin.schemas.get("orders").text == WIDER
