"""``run``: pipelines from files, and the whole of the demo's part."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pyromq.errors import ConfigError
from pyromq.pipeline.jobs import Selection, check_file, run_file
from pyromq.pipeline.jobs.common.errors import JobFailedError
from tests.spark.topics import Topics, bodies

pytestmark = pytest.mark.spark

STEPS = """
def shout(frame):
    from pyspark.sql import functions
    return frame.withColumn("body", functions.upper(frame.body.cast("string")))

def nothing(frame):
    return None

def broken(frame):
    return {}["colour"]
"""


def written(folder: Path, topics: Topics, topic: str, rest: str, mode: str = "once", top: str = "") -> Path:
    (folder / "steps_of_run.py").write_text(STEPS)
    path = folder / "pipeline.toml"
    path.write_text(
        f"""
        name = "p-{topics.test[-40:]}"
        mode = "{mode}"
        checkpoint = "checkpoints"
        {top}
        [source]
        nameserver = "{topics.nameserver}"
        topic = "{topic}"
        {rest}
        """
    )
    return path


def test_a_pipeline_of_steps_and_two_sinks_runs_and_goes_on(spark: Any, topics: Topics, tmp_path: Path) -> None:
    topic, target = topics.make(), topics.make("-to")
    path = written(tmp_path, topics, topic, f"""
        [[step]]
        sql = "SELECT * FROM input WHERE tags = 'paid'"
        name = "paid"
        [[step]]
        python = "steps_of_run:shout"
        [[sink]]
        name = "loud"
        kind = "topic"
        topic = "{target}"
        options = {{ mode = "at-least-once" }}
        [[sink]]
        name = "files"
        kind = "json"
        from = "paid"
        path = "out"
    """)  # fmt: skip
    topics.send(topic, ["a", "b"], tags="paid")
    topics.send(topic, ["c"], tags="open")

    first = run_file(spark, path)
    topics.send(topic, ["d"], tags="paid")
    second = run_file(spark, path)

    assert [(each.name, each.read, each.rows) for each in first.sinks] == [("loud", 3, 2), ("files", 3, 2)]
    assert [(each.name, each.read, each.rows) for each in second.sinks] == [("loud", 1, 1), ("files", 1, 1)]
    rows = Selection(topics=(target,), nameserver=topics.nameserver).frame(spark).collect()
    assert bodies(rows) == Counter(["A", "B", "D"]) and {row["tags"] for row in rows} == {"paid"}
    lines = [json.loads(line) for file in (tmp_path / "out").glob("*.json") for line in file.read_text().splitlines()]
    assert len(lines) == 3 and {line["tags"] for line in lines} == {"paid"}


def test_several_topics_and_sinks_share_one_read(spark: Any, topics: Topics, tmp_path: Path) -> None:
    first, second, target = topics.make("-a"), topics.make("-b"), topics.make("-to")
    path = written(tmp_path, topics, f"{first},{second}", f"""
        [[step]]
        sql = "SELECT * FROM input WHERE tags = 'paid'"
        name = "paid"
        [[sink]]
        name = "again"
        kind = "topic"
        topic = "{target}"
        from = "paid"
        options = {{ mode = "idempotent" }}
        [[sink]]
        name = "files"
        kind = "parquet"
        path = "out"
    """, top="one_read = true")  # fmt: skip
    topics.send(first, ["a", "b"], tags="paid")
    topics.send(second, ["c"], tags="paid")

    def found() -> tuple[Counter[str], Counter[str]]:
        rows = Selection(topics=(target,), nameserver=topics.nameserver).frame(spark).collect()
        return bodies(rows), bodies(spark.read.parquet(str(tmp_path / "out")).collect())

    done = run_file(spark, path)
    assert [(each.name, each.read, each.rows) for each in done.sinks] == [("again", 3, 3), ("files", 3, 3)]
    assert found() == (Counter("abc"), Counter("abc"))

    (checkpoint,) = (tmp_path / "checkpoints").glob("p-*/one_read")
    for committed in checkpoint.glob("commits/*0*"):  # and its checksum
        committed.unlink()  # as if the driver had died after both sinks were written, and before Spark knew
    topics.send(first, ["d"], tags="open")
    run_file(spark, path)
    assert found() == (Counter("abc"), Counter("abcd")), "each row once in both"


def test_a_batch_pipeline_writes_what_there_is(spark: Any, topics: Topics, tmp_path: Path) -> None:
    topic = topics.make()
    topics.send(topic, ["a", "b"])
    sink = '[[sink]]\nkind = "parquet"\npath = "out"\npartition_by = ["queue_id"]'
    run_file(spark, written(tmp_path, topics, topic, sink, mode="batch"))
    assert bodies(spark.read.parquet(str(tmp_path / "out")).collect()) == Counter(["a", "b"])


def test_mistakes_of_steps_are_told_in_a_line(spark: Any, topics: Topics, tmp_path: Path) -> None:
    topic = topics.make()
    for step, error, text in (
        ('sql = "SELECT nonsense FROM input"', JobFailedError, r"^step\[0\]: .*nonsense"),
        ('python = "steps_of_run:nothing"', ConfigError, r"^step\[0\]: .*NoneType"),
        ('python = "steps_of_run:broken"', JobFailedError, r"^step\[0\]: .*KeyError: 'colour'"),
        ('python = "steps_of_run:missing"', ConfigError, "has no missing"),
    ):
        path = written(tmp_path, topics, topic, f'[[step]]\n{step}\n[[sink]]\nkind = "noop"')
        with pytest.raises(error, match=text) as raised:
            run_file(spark, path)
        assert "\n" not in str(raised.value)


# --- test ------------------------------------------------------------------------------------------------------------


def test_cases_of_a_file_are_met_or_say_which_rows_differ(spark: Any, tmp_path: Path) -> None:
    example = Path(__file__).parents[2] / "examples" / "paid_orders.toml"
    assert [(each.of, each.rows, each.is_met) for each in check_file(spark, example)] == [
        ("files", 1, True), ("topic", 1, True),
    ]  # fmt: skip
    wrong = tmp_path / "wrong.toml"
    wrong.write_text(example.read_text().replace("'paid'\"", "'new'\"", 1))
    files, topic = check_file(spark, wrong)
    assert not files.is_met and '"keys":"order-1"' in files.missing[0] and '"keys":"order-2"' in files.unexpected[0]
    assert not topic.is_met and not (tmp_path / "paid-orders").exists(), "nothing is written"


def test_a_case_has_typed_columns_a_watermark_and_named_steps(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "typed.toml"
    path.write_text("""
        name = "typed"
        checkpoint = "c"
        watermark = { column = "store_time", delay = "10 minutes" }
        [source]
        topic = "orders"
        payload = "json"
        schema = "price int"
        maxOffsetsPerTrigger = 10
        [[step]]
        name = "sums"
        sql = "SELECT window(store_time, '1 hour').start AS hour, sum(price) AS total FROM input GROUP BY 1"
        [[sink]]
        kind = "noop"
        [[test]]
        name = "by hour"
        input = [
            { price = 1, store_time = "2026-11-15T07:30:00Z" }, { price = 2, store_time = "2026-11-15T07:40:00Z" },
            { price = 5, store_time = "2026-11-15T08:00:00Z" },
        ]
        expect = [{ step = "sums", rows = [{ total = 3 }, { total = 5 }] }]
    """)
    (outcome,) = check_file(spark, path)
    assert outcome.is_met, outcome
    path.write_text(path.read_text().replace("{ price = 1,", "{ prize = 1,"))
    with pytest.raises(JobFailedError, match="no column prize"):
        check_file(spark, path)
