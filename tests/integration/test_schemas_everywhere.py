"""The schema that is kept with a topic, in every face: producers, transactions, apps, commands, the console, SQL."""

from __future__ import annotations

import asyncio
import json
import queue
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

import pyromq
from pyromq import Admin, App, Message, Producer, PullConsumer, TransactionProducer, aio
from pyromq.cli.main import main
from pyromq.errors import SchemaMismatchError
from pyromq.pipeline.tables.errors import SqlError
from pyromq.settings import ClientSettings
from pyromq.testing import LoopbackBroker

pytestmark = pytest.mark.integration

DDL = "id bigint NOT NULL, amount decimal(10,2)"


@dataclass
class Order:
    id: int
    amount: Decimal | None = None


@pytest.fixture(scope="module")
def broker() -> Iterator[LoopbackBroker]:
    with LoopbackBroker() as running, Admin(running.nameserver) as admin:
        for topic, payload in (("orders", "json"), ("packed", "avro"), ("paid", "json")):
            admin.topics.create(topic)
            admin.schemas.set(topic, DDL, payload=payload)
        yield running


def messages_of(broker: LoopbackBroker, topic: str, count: int) -> list[Any]:
    with PullConsumer(broker.nameserver, group=f"read-{topic}", topics=topic, start="earliest") as consumer:
        found: list[Any] = []
        while len(found) < count:
            found += consumer.poll(timeout=timedelta(seconds=5))
    return found


def test_every_way_of_sending_checks_a_value(broker: LoopbackBroker) -> None:
    bad = {"id": "x"}
    with Producer(broker.nameserver, group="shop") as producer:
        for send in (
            lambda value: producer.send("orders", value),
            lambda value: producer.send_nowait("orders", value).result(10),
            lambda value: producer.send_oneway("orders", value),
            lambda value: producer.send_batch("orders", [{"id": 0}, value]),
            lambda value: producer.request("orders", value, timeout_ms=1_000),
        ):
            with pytest.raises(SchemaMismatchError) as caught:
                send(bad)
            assert (caught.value.topic, caught.value.version, caught.value.field) == ("orders", 1, "id")
        producer.send("orders", Order(1, Decimal("9.90")))
        producer.send_nowait("orders", {"id": 2}).result(10)
        producer.send_batch("orders", [{"id": 3}, b"bytes are sent as they are"])
        producer.send("orders", "who names a content type decides", content_type="text/plain")
        producer.send(Message("orders", b"a message is sent as it is"))
    bodies = {message.body for message in messages_of(broker, "orders", 6)}
    assert bodies == {
        b'{"id":1,"amount":"9.90"}', b'{"id":2}', b'{"id":3}', b"bytes are sent as they are",
        b"who names a content type decides", b"a message is sent as it is",
    }  # fmt: skip


def test_asyncio_producers_check_too_and_transactions(broker: LoopbackBroker) -> None:
    async def run() -> None:
        async with aio.Producer(broker.nameserver, group="shop") as producer:
            with pytest.raises(SchemaMismatchError):
                await producer.send_nowait("paid", {"id": None})
            with pytest.raises(SchemaMismatchError):
                await producer.send("paid", [1])
            await producer.send("paid", Order(1))

    asyncio.run(run())
    with TransactionProducer(broker.nameserver, group="tx", topics="paid", check=lambda _: None) as producer:
        with pytest.raises(SchemaMismatchError), producer.transaction("paid", {"id": "x"}):
            raise AssertionError("the block does not begin")
        with producer.transaction("paid", {"id": 2}):
            pass
    assert sorted(message.json()["id"] for message in messages_of(broker, "paid", 2)) == [1, 2]


def test_a_new_version_is_used_where_a_value_does_not_fit_the_old_one(broker: LoopbackBroker) -> None:
    with Admin(broker.nameserver) as admin:
        admin.topics.create("growing")
        admin.schemas.set("growing", "id int NOT NULL", compatibility="none")
        with Producer(broker.nameserver, group="shop") as producer:
            producer.send("growing", {"id": 1})
            admin.schemas.set("growing", "id bigint NOT NULL")
            broker_schemas = producer.inner.client.schemas
            broker_schemas._renewed_ms -= 1_000  # as if a second had passed
            producer.send("growing", {"id": 1 << 40})
            broker_schemas._renewed_ms -= 1_000
            with pytest.raises(SchemaMismatchError) as caught:
                producer.send("growing", {"id": "x"})
            assert caught.value.version == 2


def test_nothing_is_looked_up_where_it_is_off(broker: LoopbackBroker) -> None:
    with Producer(broker.nameserver, group="shop", schemas="none") as producer:
        producer.send("paid", {"id": "not checked"})
        assert producer.inner.client.schemas.is_off
    settings = ClientSettings(nameservers=broker.nameserver, schemas="none")
    with Producer(group="shop", client_settings=settings) as producer:
        producer.send("paid", {"id": "not checked"})


def test_an_app_reads_avro_by_the_schema(broker: LoopbackBroker) -> None:
    app = App(broker.nameserver, name="billing")
    orders: queue.Queue[Order] = queue.Queue()
    dicts: queue.Queue[dict[str, Any]] = queue.Queue()

    @app.consume("packed", group="classes", start="earliest")
    def bill(order: Order) -> None:
        orders.put(order)

    @app.consume("packed", group="dicts", start="earliest")
    async def note(order: dict[str, Any]) -> None:
        dicts.put(order)

    with app.running(), Producer(broker.nameserver, group="shop") as producer:
        producer.send("packed", Order(7, Decimal("1.50")))
        assert orders.get(timeout=20) == Order(7, Decimal("1.50"))
        assert dicts.get(timeout=20) == {"id": 7, "amount": Decimal("1.50")}


def test_commands_send_and_show_by_the_schema(broker: LoopbackBroker, capsys: pytest.CaptureFixture[str]) -> None:
    here = ("-n", broker.nameserver)
    with Admin(broker.nameserver) as admin:
        admin.topics.create("typed-lines", queues=1)
        admin.schemas.set("typed-lines", DDL, payload="avro")
    assert main(["send", "typed-lines", '{"id": 1, "amount": "2.50"}', *here]) == 0
    assert main(["send", "typed-lines", '{"id": "x"}', *here]) == 1
    assert "version 1: field id: Expected `int`, got `str`" in capsys.readouterr().err
    assert main(["send", "typed-lines", "no json", *here]) == 1
    assert "--raw sends it as it is" in capsys.readouterr().err
    assert main(["send", "typed-lines", "no json", "--raw", *here]) == 0
    capsys.readouterr()
    assert main(["tail", "typed-lines", "--nameserver", broker.nameserver, "-o", "table"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.endswith('{"id":1,"amount":"2.50"}')
    assert "no json  (version 1 (avro): " in second
    assert main(["consume", "typed-lines", "--count", "2", "-o", "jsonl", *here]) == 0
    good, bad = map(json.loads, capsys.readouterr().out.splitlines())
    assert good["decoded"] == {"id": 1, "amount": "2.50"} and good["schema"] == "version 1 (avro)"
    assert "decoded" not in bad and bad["schema_problem"]


def test_sql_has_the_fields_as_columns(broker: LoopbackBroker) -> None:
    with Admin(broker.nameserver) as admin, Producer(broker.nameserver, group="shop") as producer:
        admin.topics.create("asked", queues=1)
        admin.schemas.set("asked", f"{DDL}, keys string")
        for number in range(5):
            producer.send("asked", {"id": number, "amount": f"{number}.50", "keys": "k"})
        producer.send("asked", b'{"id": "x"}')
    here = broker.nameserver
    (row,) = pyromq.sql("select sum(amount) as total from asked where id > 2", here)
    assert row == {"total": Decimal("8.00")}
    rows = list(pyromq.sql("select queue_offset, id, _error from asked where queue_offset >= 4 order by 1", here))
    assert rows[0] == {"queue_offset": 4, "id": 4, "_error": None}
    assert (rows[1]["id"], rows[1]["_error"]) == (None, "Expected `int`, got `str` - at `$.id`")
    columns = pyromq.sql("select * from asked", here).columns
    assert columns[-3:] == ("id", "amount", "_error") and columns.count("keys") == 1, "keys is a column of the source"


@pytest.mark.parametrize("text", ["json_extract(body, '$.id')", "o.body ->> '$.id'", "body -> '$.id'"])
def test_json_of_bytes_is_an_error_with_a_hint(broker: LoopbackBroker, text: str) -> None:
    with pytest.raises(SqlError, match=r"body is bytes, and .* write .*string\(body\)"):
        pyromq.sql(f"select {text} from paid o", broker.nameserver)
    better = text.replace("o.", "").replace("body", "string(body)")
    assert list(pyromq.sql(f"select {better} from paid", broker.nameserver))
