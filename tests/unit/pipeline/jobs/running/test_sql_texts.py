"""SQL of steps: what can be told of it without Spark."""

from __future__ import annotations

import pytest

from pyromq.pipeline.jobs.running.sql_texts import sql_mistake

VIEWS, LATER = ("input", "paid_orders"), ("totals",)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM input WHERE tags = 'it''s; (fine' -- or not (",
        "select get_json_object(string(body), '$.price') AS price from Input;",
        "WITH big AS (SELECT * FROM paid_orders), small AS (SELECT 1) SELECT * FROM big JOIN small",
        "(SELECT 1) UNION ALL (SELECT 2)",
        "FROM input SELECT *",
        "VALUES (1), (2)",
        "SELECT extract(YEAR FROM born_time), trim(BOTH 'x' FROM inputs) FROM input",
        "SELECT 1 /* a ( b */ FROM `a strange name`, warehouse.inputs",
        "SELECT * FROM customers",
        "SELECT count(*) FROM (SELECT * FROM input) JOIN LATERAL explode(array(1))",
        "SELECT input.body FROM input WHERE body IS DISTINCT FROM inputs",
        "SELECT 'a\\'b' FROM range(3)",
    ],
)
def test_what_spark_may_understand_passes(text: str) -> None:
    assert sql_mistake(text, VIEWS, LATER) == ""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("  -- nothing\n", "it is empty"),
        ("SELECT 'a FROM input", "a text that begins with ' has no end"),
        ("SELECT `a FROM input", "a name that begins with ` has no end"),
        ("SELECT 1 /* FROM input", "a comment has no end"),
        ("SELECT count( FROM input", "there is a ( without its end"),
        ("SELECT count(*)) FROM input", "there is a ) without its ("),
        ("SELECT 1; DROP TABLE x", "several statements"),
        ("SELEKT * FROM input", "it begins with 'SELEKT'; did you mean SELECT?"),
        ("DROP TABLE x", "it begins with 'DROP'; a query begins with SELECT, WITH"),
        ("SELECT * FORM input", "it names input, but has no FROM"),
        ("SELECT * FROM inptu", "it reads inptu; did you mean input?"),
        ("SELECT * FROM input JOIN paid_order USING (keys)", "it reads paid_order; did you mean paid_orders?"),
        ("SELECT * FROM totals", "it reads totals, which is a later step"),
    ],
)
def test_slips_are_told(text: str, reason: str) -> None:
    assert reason in sql_mistake(text, VIEWS, LATER)
