"""``pyromq sql`` and ``pyromq.sql``: questions over topics of a running broker, dead letters and its store folder."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pyromq import Message, Producer, sql
from pyromq.cli.main import main
from pyromq.errors import NameServersUnreachableError, TopicNotFoundError
from pyromq.model.names import dead_letter_topic
from pyromq.pipeline.arrow.columns import COLUMNS
from pyromq.testing import LoopbackBroker

pytestmark = pytest.mark.integration
COUNT = 120


@dataclass(frozen=True)
class Shop:
    nameserver: str
    store: Path
    producer: Producer

    def rows(self, text: str, **more: Any) -> list[dict[str, Any]]:
        return list(sql(text, self.nameserver, **more))


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    store = tmp_path_factory.mktemp("store")
    with LoopbackBroker(folder=store) as broker, Producer(broker.nameserver, group="shop") as producer:
        for number in range(COUNT):
            body = json.dumps({"n": number}).encode()
            producer.send(Message("orders", body, tags="abc"[number % 3], keys=f"k{number}"))
        producer.send(Message(dead_letter_topic("billing"), b"\xff", tags="late"))
        yield Shop(broker.nameserver, store, producer)


def test_a_topic_is_a_table_with_the_columns_of_the_spark_source(shop: Shop) -> None:
    assert sql("from orders", shop.nameserver).columns == COLUMNS
    found = shop.rows("select tags, count(*) as n, max(cast(get_json_object(string(body), '$.n') as int)) as last "
                      "from orders group by tags order by tags")  # fmt: skip
    assert found == [{"tags": "a", "n": 40, "last": 117}, {"tags": "b", "n": 40, "last": 118}, {"tags": "c", "n": 40, "last": 119}]  # noqa: E501 # fmt: skip
    assert shop.rows("select properties['KEYS'] as k from orders where keys = 'k7'") == [{"k": "k7"}]


def test_dead_letters_have_a_short_name(shop: Shop) -> None:
    for name in ("dlq:billing", "%DLQ%billing"):
        assert shop.rows(f'select topic, tags, string(body) as b from "{name}"') == [
            {"topic": "%DLQ%billing", "tags": "late", "b": None}
        ]


@pytest.mark.parametrize(
    ("where", "reads_most"),
    [
        ("queue_offset < 5", 6),
        ("queue_offset between 3 and 4", 4),
        ("queue_offset = 3 or queue_offset = 5", 4),
        ("broker = 'nobody'", 0),
        ("topic <> 'orders'", 0),
        ("store_time < now() - interval 1 day", 0),
        ("store_time > now() + interval 1 day", 0),
        ("tags = 'a'", COUNT),
    ],
)
def test_what_a_condition_leaves_out_is_not_read(shop: Shop, where: str, reads_most: int) -> None:
    """``reads_most`` is for each queue but the last row's."""
    read = [0]
    queues = len(shop.rows("select distinct queue_id from orders"))
    found = shop.rows(f"select keys from orders where {where}", progress=lambda done, _: read.append(done))
    assert read[-1] <= reads_most * queues
    everything = shop.rows(f"with o as materialized (from orders) select keys from o where {where}")
    assert sorted(row["keys"] for row in found) == sorted(row["keys"] for row in everything)


def test_an_answer_ends_where_the_topic_ended_when_the_question_was_asked(shop: Shop) -> None:
    shop.producer.send(Message("growing", b"1"))
    answer = sql("select count(*) as n from growing a cross join growing b", shop.nameserver)
    shop.producer.send(Message("growing", b"2"))
    assert list(answer) == [{"n": 1}] == list(answer)
    assert shop.rows("select count(*) as n from growing") == [{"n": 2}]


def test_a_store_folder_is_a_table_beside_topics(shop: Shop) -> None:
    text = "select count(*) as n from orders o join store s using (message_id) where s.topic = 'orders'"
    assert shop.rows(text, tables={"store": shop.store}) == [{"n": COUNT}]


def test_a_limit_ends_the_reading(shop: Shop) -> None:
    assert len(list(sql("from orders", shop.nameserver).rows(3))) == 3


def test_names_that_nobody_knows(shop: Shop) -> None:
    with pytest.raises(TopicNotFoundError, match="did you mean orders"):
        shop.rows("select * from orderz")
    assert shop.rows("with nosuch as (select 1 as one) select * from nosuch") == [{"one": 1}]
    with pytest.raises(NameServersUnreachableError):
        sql("from orders", "127.0.0.1:1")
    assert list(sql("with c as (select 1 as one) from c", "127.0.0.1:1")) == [{"one": 1}], "no cluster is asked"


@pytest.mark.parametrize("form", ["table", "json", "jsonl", "csv"])
def test_the_command_writes_every_form(shop: Shop, form: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = "select keys, queue_offset * 0 as zero, properties['TAGS'] as tag from orders where keys in ('k1', 'k2')"
    assert main(["sql", f"{text} order by keys", "-n", shop.nameserver, "-o", form]) == 0
    out = capsys.readouterr().out
    rows = [{"keys": "k1", "zero": 0, "tag": "b"}, {"keys": "k2", "zero": 0, "tag": "c"}]
    match form:
        case "table":
            assert [line.split() for line in out.splitlines()] == [["keys", "zero", "tag"], ["k1", "0", "b"], ["k2", "0", "c"]]  # noqa: E501 # fmt: skip
        case "json":
            assert json.loads(out) == rows
        case "jsonl":
            assert [json.loads(line) for line in out.splitlines()] == rows
        case _:
            texts = [{name: str(value) for name, value in row.items()} for row in rows]
            assert list(csv.DictReader(io.StringIO(out))) == texts


def test_the_command_bounds_tables_and_reads_its_text_from_standard_input(
    shop: Shop, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("select i from range(1001) t(i)"))
    assert main(["sql", "-", "-n", shop.nameserver, "-o", "table"]) == 0
    shown = capsys.readouterr()
    assert len(shown.out.splitlines()) == 1001 and "the first 1,000 rows" in shown.err
    assert main(["sql", "from orders", "-n", shop.nameserver, "--max", "2"]) == 0
    shown = capsys.readouterr()
    assert len(shown.out.splitlines()) == 2 and shown.err == ""
    assert main(["sql", "select i from range(0) t(i)", "-o", "json"]) == 0
    assert capsys.readouterr().out == "[]\n"


def test_the_command_names_folders_with_an_option(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["sql", "select count(*) n from s where topic = 'orders'", "--table", f"s={shop.store}"]
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out) == {"n": COUNT}
    assert main(["sql", f"from '{shop.store}'", "-n", shop.nameserver]) == 1
    assert "--table NAME=DIR" in capsys.readouterr().err
