"""What a question reads is found in its syntax tree, and whatever is more than reading is refused."""

from __future__ import annotations

import pytest

from pyromq.pipeline.tables.engine import ask
from pyromq.pipeline.tables.errors import SqlError
from pyromq.pipeline.tables.question import TABLE_FUNCTIONS, topic_named, understood


@pytest.mark.parametrize(
    ("text", "tables"),
    [
        ("select * from orders", ["orders"]),
        ("FROM orders", ["orders"]),
        ('select * from orders o join "%DLQ%billing" d using (keys)', ["orders", "%DLQ%billing"]),
        ('select (select max(queue_offset) from returns) from "dlq:billing"', ["dlq:billing", "returns"]),
        ("select 1 union all select queue_id from orders where keys in (select keys from b)", ["orders", "b"]),
        ("describe orders", ["orders"]),
        ("summarize orders", ["orders"]),
        ("values (1)", []),
        ("with c as (select * from orders) select * from c, range(3)", ["orders"]),
        ("with orders as (select * from orders where tags = 'a') select * from orders", ["orders"]),
        ("with a as (select 1), b as (select * from a) select * from B, c", ["c"]),
        ("with recursive r as (select 1 n union all select n + 1 from r) select * from r, orders", ["orders"]),
        ("select * from (with c as (select * from x) select * from c), c", ["x", "c"]),
        ("select * from information_schema.tables", []),
        ("select * from orders -- and read_csv('a')", ["orders"]),
    ],
)
def test_the_tables_that_a_question_reads(text: str, tables: list[str]) -> None:
    assert sorted(ask(text).tables) == sorted(tables)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("copy (select 1) to 'out.csv'", "only SELECT is answered"),
        ("create table t as select 1", "only SELECT is answered"),
        ("attach 'other.db'", "only SELECT is answered"),
        ("set memory_limit = '1TB'", "only SELECT is answered"),
        ("install httpfs", "only SELECT is answered"),
        ("pragma version", "only SELECT is answered"),
        ("select 1; select 2", "2 statements"),
        ("select 1; copy (select 1) to 'out.csv'", "only SELECT is answered"),
        ("", "0 statements"),
        ("selec 1", 'syntax error at or near "selec"'),
        ("select * from Orders, orders", "differ in case alone"),
        ("select * from read_csv('/etc/passwd')", r"read_csv\(…\) is not allowed"),
        ("select (select count(*) from glob('/*')) from orders", r"glob\(…\) is not allowed"),
        ("with c as (from read_text('/etc/passwd')) select 1", r"read_text\(…\) is not allowed"),
        ("select * from query('select 1')", r"query\(…\) is not allowed"),
    ],
)
def test_what_is_more_than_reading_is_refused(text: str, reason: str) -> None:
    with pytest.raises(SqlError, match=reason):
        ask(text)


def test_functions_of_duckdb_that_are_not_named_here_cannot_be_read_from() -> None:
    import duckdb

    with duckdb.connect() as engine:
        kinds = "function_type in ('table', 'table_macro', 'pragma')"
        found = engine.execute(f"select distinct function_name from duckdb_functions() where {kinds}").fetchall()
        names = {name for (name,) in found if name.isidentifier()} - TABLE_FUNCTIONS
        texts = {name: f"select * from {name}('x')" for name in sorted(names)}
        trees = engine.execute("select unnest($t), json_serialize_sql(unnest($t))", {"t": [*texts.values()]}).fetchall()
    assert len(trees) == len(names) > 60
    for text, tree in trees:
        with pytest.raises(SqlError, match=r"is not allowed after FROM|not SQL that DuckDB understands"):
            understood(text, tree)


def test_dead_letters_and_retries_have_short_names() -> None:
    assert topic_named("dlq:billing") == "%DLQ%billing"
    assert topic_named("retry:billing") == "%RETRY%billing"
    assert (topic_named("dlq"), topic_named("%DLQ%billing"), topic_named("dlq:")) == ("dlq", "%DLQ%billing", "dlq:")
