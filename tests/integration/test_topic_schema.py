"""Schemas that are kept with the cluster: versions, compatibility, the command."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyromq import Admin
from pyromq.cli.main import main
from pyromq.errors import ConfigError
from pyromq.operate.reading.topic_schemas import SchemaNotFoundError, SchemaRefusedError
from pyromq.pipeline.core.options import Use, parse_options
from pyromq.pipeline.sink.options import parse_sink_options
from pyromq.testing import LoopbackBroker
from pyromq.typed.schemas.compatibility import Compatibility
from pyromq.typed.schemas.payloads import PayloadFormat

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def broker() -> Iterator[LoopbackBroker]:
    with LoopbackBroker() as running:
        yield running


@pytest.fixture
def admin(broker: LoopbackBroker) -> Iterator[Admin]:
    with Admin(broker.nameserver) as opened:
        yield opened


def test_versions_follow_each_other_and_keep_their_promise(admin: Admin) -> None:
    with pytest.raises(SchemaNotFoundError, match="has no schema"):
        admin.schemas.get("orders")
    first = admin.schemas.set("orders", "id bigint NOT NULL")
    assert admin.schemas.set("orders", "id bigint NOT NULL") == first, "the same again is no new version"
    second = admin.schemas.set("orders", "id bigint NOT NULL, colour string")
    with pytest.raises(SchemaRefusedError, match="field id is string") as caught:
        admin.schemas.set("orders", "id string")
    assert len(caught.value.problems) == 1
    with pytest.raises(SchemaRefusedError, match="bodies were json"):
        admin.schemas.set("orders", "id bigint NOT NULL, colour string", payload="msgpack")
    assert [each.version for each in admin.schemas.versions("orders")] == [2, 1]
    assert admin.schemas.get("orders") == second and admin.schemas.get("orders", 1) == first
    anything = admin.schemas.set("orders", "id string", payload="msgpack", compatibility=Compatibility.NONE)
    assert (anything.version, anything.payload, anything.ddl) == (3, "msgpack", "id string")
    assert not admin.schemas.versions("order"), "another topic, whose name begins the same"
    assert admin.schemas.delete("orders") == 3 and not admin.schemas.versions("orders")


def test_every_text_comes_back_as_it_was(admin: Admin) -> None:
    text = '{"type": "object", "properties": {"größe": {"type": "integer"}, "a\\"b": {"type": "string"}}}'
    admin.schemas.set("shapes", text, payload="json")
    assert admin.schemas.get("shapes").text == text
    assert [each.name for each in admin.schemas.get("shapes").schema.fields] == ["größe", 'a"b']


def test_a_kept_schema_gives_the_options_of_source_and_sink(admin: Admin) -> None:
    admin.schemas.set("typed", "id bigint NOT NULL, colour string", payload="msgpack")
    options = {"topic": "typed", **admin.schemas.get("typed").options}
    read = parse_options(options, Use.BATCH)
    assert read.payload is PayloadFormat.MSGPACK and read.schema == "id bigint NOT NULL, colour string"
    written = parse_sink_options(options, Use.BATCH)
    assert (written.payload, written.schema) == (read.payload, read.schema)


def test_what_is_no_schema_is_refused(admin: Admin) -> None:
    for text, payload in (("id nonsense", ""), ("id int", "xml"), (f"{'x' * 20_000} int", "")):
        with pytest.raises(ConfigError):
            admin.schemas.set("refused", text, payload=payload)
    assert not admin.schemas.versions("refused")


def test_the_command_sets_shows_and_checks(
    broker: LoopbackBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = ("-n", broker.nameserver)
    file = tmp_path / "order.ddl"
    file.write_text("id bigint, amount double\n")
    assert main(["topic", "schema", "set", "bills", str(file), *here]) == 0
    assert "version 1" in capsys.readouterr().err
    assert main(["topic", "schema", "check", "bills", "id bigint, amount int", *here]) == 5
    assert "field amount is int" in capsys.readouterr().out
    assert main(["topic", "schema", "check", "bills", "id bigint", *here]) == 0
    assert main(["topic", "schema", "set", "bills", "id string", *here]) == 1
    assert "shall stay compatible (backward)" in capsys.readouterr().err
    assert main(["topic", "schema", "show", "bills", *here, "-o", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["version"], row["payload"], row["schema"]) == (1, "json", "id bigint, amount double")
    assert main(["topic", "schema", "delete", "bills", "--yes", *here]) == 0
    assert main(["topic", "schema", "show", "bills", *here]) == 2
