"""A schema registry that speaks Confluent's API: its client, and bodies with ids in producers, apps and typed rows."""

from __future__ import annotations

import base64
import json
import queue
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

import pyromq
from pyromq import Admin, App, Message, Producer, PullConsumer
from pyromq.client.schemas.topic_schemas import bodies_by_registry
from pyromq.errors import ConfigError, ConnectFailedError, MQError, SchemaMismatchError
from pyromq.pipeline.core.errors import OptionError
from pyromq.pipeline.core.options import SourceOptions, Use, parse_options
from pyromq.pipeline.payload.encoding import BodyEncoder
from pyromq.pipeline.payload.lookup import with_schema
from pyromq.pipeline.payload.typed_rows import TypedRows, rows_of, typed_schema
from pyromq.schemas import RegistryError, SchemaReference, SchemaRegistry
from pyromq.testing import LoopbackBroker
from pyromq.typed.schemas.framing import schema_id_of
from tests.registry.server import RegistryServer

pytestmark = pytest.mark.integration

V1 = {"type": "record", "name": "Order", "namespace": "shop", "fields": [{"name": "id", "type": "long"}]}
V2 = {**V1, "fields": [*V1["fields"], {"name": "colour", "type": ["null", "string"], "default": None}]}  # type: ignore[misc]
OBJECT = {"type": "object", "title": "Order", "properties": {"id": {"type": "integer"}}, "required": ["id"]}


@dataclass
class Order:
    id: int
    colour: str | None = None


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with RegistryServer() as running:
        yield running


@pytest.fixture(scope="module")
def broker() -> Iterator[LoopbackBroker]:
    with LoopbackBroker() as running:
        yield running


def text(document: Any) -> str:
    return json.dumps(document)


def proto(name: str, package: str, fields: dict[str, str], imports: tuple[str, ...] = ()) -> str:
    """A Protobuf file as its descriptor in base 64, as a registry takes it."""
    from google.protobuf import descriptor_pb2

    file = descriptor_pb2.FileDescriptorProto(name=name, package=package, syntax="proto3", dependency=list(imports))
    message = file.message_type.add(name=name.removesuffix(".proto").capitalize())
    kinds = descriptor_pb2.FieldDescriptorProto
    for number, (field, kind) in enumerate(fields.items(), 1):
        is_message = kind.startswith(".")
        message.field.add(
            name=field, number=number, label=kinds.LABEL_OPTIONAL, type_name=kind if is_message else None,
            type=kinds.TYPE_MESSAGE if is_message else kinds.Type.Value(f"TYPE_{kind.upper()}"),
        )  # fmt: skip
    return base64.b64encode(file.SerializeToString()).decode()


# --- the client ---


def test_versions_ids_and_refusals(server: RegistryServer) -> None:
    registry = SchemaRegistry(server.url)
    first = registry.register("orders-value", text(V1))
    assert (first.id, first.version, first.subject, first.schema_type) == (1, 1, "orders-value", "AVRO")
    assert registry.register("orders-value", text(V1)) == first, "the same again is no new version"
    assert registry.is_compatible("orders-value", text(V2)) and registry.is_compatible("nobody", text(V1))
    second = registry.register("orders-value", text(V2))
    assert registry.versions("orders-value") == [1, 2] and registry.subjects() == ["orders-value"]
    assert registry.latest("orders-value") == second and registry.version("orders-value", 1) == first
    assert json.loads(registry.by_id(1).schema) == V1
    assert registry.lookup("orders-value", text(OBJECT), "JSON") is None
    broken = {**V1, "fields": [{"name": "id", "type": "string"}]}
    assert not registry.is_compatible("orders-value", text(broken))
    for call, status, code in (
        (lambda: registry.register("orders-value", text(broken)), 409, 409),
        (lambda: registry.register("orders-value", "{"), 422, 42201),
        (lambda: registry.latest("nobody"), 404, 40401),
        (lambda: registry.version("orders-value", 9), 404, 40402),
        (lambda: registry.by_id(99), 404, 40403),
    ):
        with pytest.raises(RegistryError) as caught:
            call()
        assert (caught.value.status, caught.value.code) == (status, code)
    assert registry.delete("orders-value") == [1, 2] and not registry.subjects()


def test_a_schema_with_an_id_is_asked_for_once(server: RegistryServer) -> None:
    registry = SchemaRegistry(server.url)
    registry.register("a/b c", text(V1))
    for _ in range(3):
        registry.by_id(1)
    assert server.asked.count("GET /schemas/ids/1") == 1
    assert "POST /subjects/a%2Fb%20c/versions" in server.asked


def test_who_asks_is_told_by_the_url_or_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with RegistryServer(user="shop:s3cret") as server:
        assert SchemaRegistry(server.url).subjects() == []
        plain = server.url.replace("shop:s3cret@", "")
        with pytest.raises(RegistryError, match="Unauthorized") as caught:
            SchemaRegistry(plain).subjects()
        assert "s3cret" not in str(caught.value)
        monkeypatch.setenv("PYROMQ_REGISTRY", server.url)
        assert SchemaRegistry(plain).subjects() == []
        monkeypatch.setenv("PYROMQ_REGISTRY", "http://shop:s3cret@elsewhere:8081")
        with pytest.raises(RegistryError, match="Unauthorized"):
            SchemaRegistry(plain).subjects()


def test_what_is_no_registry_is_said() -> None:
    with pytest.raises(ConfigError, match="no address of a schema registry"):
        SchemaRegistry("ftp://host")
    with RegistryServer() as server:
        pass
    with pytest.raises(ConnectFailedError, match="cannot be reached"):
        SchemaRegistry(server.url).subjects()


# --- bodies ---


def test_producers_and_apps_by_the_registry(server: RegistryServer, broker: LoopbackBroker) -> None:
    registry, seen = SchemaRegistry(server.url), queue.Queue[Order]()
    registry.register("packed-value", text(V1))
    source = f"registry:{server.url}"
    app = App(broker.nameserver, name="billing", schemas=source)

    @app.consume("packed", group="billing", start="earliest")
    def bill(order: Order) -> None:
        seen.put(order)

    with Producer(broker.nameserver, group="shop", schemas=source) as producer:
        producer.send("packed", {"id": 1})
        registry.register("packed-value", text(V2))
        producer.inner.client.schemas._renewed_ms -= 1_000
        producer.send("packed", {"id": 2, "colour": "red"})  # fits the newer version alone
        with pytest.raises(SchemaMismatchError, match="id 2 in the registry: field id") as caught:
            producer.send("packed", {"id": "x"})
        assert caught.value.version == 2
        producer.send("free", {"anything": "goes where the registry has no subject"})
    with app.running():
        found = {seen.get(timeout=20).id for _ in range(2)}
    assert found == {1, 2}, "each is read with the schema it was written with"
    with PullConsumer(broker.nameserver, group="raw", topics="packed", start="earliest") as consumer:
        ids = sorted(schema_id_of(next(iter(consumer)).body) for _ in range(2))
    assert ids == [1, 2]


def test_a_reference_to_a_registry_is_kept_with_a_topic(server: RegistryServer, broker: LoopbackBroker) -> None:
    SchemaRegistry(server.url).register("shop.orders", text(OBJECT), "JSON")
    with Admin(broker.nameserver) as admin, Producer(broker.nameserver, group="shop") as producer:
        admin.topics.create("referred", queues=1)
        kept = admin.schemas.set("referred", f"registry:{server.url}#shop.orders")
        assert (kept.payload, kept.ddl) == ("json", "id bigint NOT NULL")
        producer.send("referred", {"id": 5})
        (row,) = pyromq.sql("select id, _error from referred", broker.nameserver)
        assert row == {"id": 5, "_error": None}
        with pytest.raises(ConfigError, match="PYROMQ_REGISTRY"):
            admin.schemas.set("referred", "registry:http://shop:s3cret@host:8081")
        with pytest.raises(MQError):
            admin.schemas.set("other", f"registry:{server.url}#nobody")


def typed(server: RegistryServer, topic: str, **more: str) -> tuple[SourceOptions, TypedRows]:
    options = with_schema(
        parse_options({"topic": topic, "schema": f"registry:{server.url}", **more}, Use.BATCH),
    )
    assert options.body_schema is not None
    fields = [pa.field("id", pa.int64()), pa.field("_error", pa.string())]
    found = rows_of(options, pa.schema(fields))
    assert found is not None
    return options, found


@pytest.mark.parametrize("kind", ["AVRO", "JSON", "PROTOBUF"])
def test_typed_rows_and_the_sink_by_the_registry(server: RegistryServer, kind: str) -> None:
    given = {"AVRO": text(V1), "JSON": text(OBJECT), "PROTOBUF": proto("order.proto", "shop", {"id": "int64"})}
    SchemaRegistry(server.url).register("orders-value", given[kind], kind)
    options, rows = typed(server, "orders")
    assert "id bigint" in typed_schema(options)
    assert options.payload is not None and options.body_schema is not None
    batch = pa.RecordBatch.from_pydict({"id": pa.array([1, 2], pa.int64())})
    bodies = BodyEncoder(options.payload, options.body_schema).bodies(batch, 0)
    assert [schema_id_of(each) for each in bodies.to_pylist()] == [1, 1]
    strange = [b'{"id": 1}', None, b"\x00\x00\x00\x00\x01\xff"]
    found, errors = rows.decoded(pa.array([*bodies.to_pylist(), *strange], pa.binary()))
    assert [row and row["id"] for row in found.to_pylist()] == [1, 2, None, None, None]
    assert sorted(errors) == [2, 3, 4] and "no schema id" in errors[2]


def test_avro_of_an_older_version_is_resolved(server: RegistryServer) -> None:
    registry = SchemaRegistry(server.url)
    registry.register("orders-value", text(V1))
    old = bodies_by_registry(f"registry:{server.url}", "orders").encode({"id": 9})
    registry.register("orders-value", text(V2))
    new = bodies_by_registry(f"registry:{server.url}", "orders")
    assert new.decode(old.body) == {"id": 9, "colour": None}
    _, rows = typed(server, "orders")
    found, errors = rows.decoded(pa.array([old.body], pa.binary()))
    assert not errors and found.to_pylist()[0]["id"] == 9


def test_protobuf_with_imports(server: RegistryServer) -> None:
    registry = SchemaRegistry(server.url)
    registry.register("line", proto("line.proto", "shop", {"sku": "string"}), "PROTOBUF")
    imports = ("line.proto", "google/protobuf/timestamp.proto")
    order = proto(
        "order.proto", "shop", {"id": "int64", "line": ".shop.Line", "at": ".google.protobuf.Timestamp"}, imports
    )
    registry.register("orders-value", order, "PROTOBUF", [SchemaReference("line.proto", "line", 1)])
    bodies = bodies_by_registry(f"registry:{server.url}", "orders")
    encoded = bodies.encode({"id": 1, "line": {"sku": "a"}, "at": "2026-11-17T09:12:05Z"})
    assert encoded.body[:6] == b"\x00\x00\x00\x00\x02\x00", "magic byte, id, the first type of the file"
    found = bodies.decode(encoded.body)
    assert (found["id"], found["line"], found["at"].isoformat()) == (1, {"sku": "a"}, "2026-11-17T09:12:05+00:00")
    with pytest.raises(ValueError, match="message type"):
        bodies.decode(encoded.body[:5] + b"\x02\x02" + encoded.body[6:])


def test_options_say_what_is_wrong(server: RegistryServer) -> None:
    with pytest.raises(RegistryError, match="Subject 'orders-value' not found"):
        with_schema(parse_options({"topic": "orders", "schema": f"registry:{server.url}"}, Use.BATCH))
    SchemaRegistry(server.url).register("orders-value", text(OBJECT), "JSON")
    wrong = {"topic": "orders", "schema": f"registry:{server.url}", "payload": "avro"}
    with pytest.raises(OptionError, match="json by its schema, not avro"):
        with_schema(parse_options(wrong, Use.BATCH))
    with pytest.raises(OptionError, match="no address"):
        with_schema(parse_options({"topic": "orders", "schema": "registry:nonsense"}, Use.BATCH))


def test_a_message_without_an_id_is_sent_as_it_is(server: RegistryServer, broker: LoopbackBroker) -> None:
    SchemaRegistry(server.url).register("plain-value", text(V1))
    with Producer(broker.nameserver, group="shop", schemas=f"registry:{server.url}") as producer:
        asked = len(server.asked)
        producer.send(Message("plain", b"bytes"))
        producer.send("plain", b"bytes")
        assert len(server.asked) == asked, "nobody asks for the schema of bytes"
