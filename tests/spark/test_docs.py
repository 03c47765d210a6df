"""The pages about Spark keep their word: their code runs, their tables of options and columns are complete."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from pyromq.pipeline.arrow.columns import COLUMNS
from pyromq.pipeline.core.options import OPTIONS
from pyromq.pipeline.spark.jvm.jar import lane_jar_if_any
from tests.unit.test_docs import ROOT, SPARK_PAGES, python_blocks_to_run, table_rows

pytestmark = pytest.mark.spark
SOURCE = ROOT / "docs/how-to/spark.md"


@pytest.mark.parametrize("page", SPARK_PAGES, ids=lambda page: page.name)
def test_every_python_block_runs(spark: Any, page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in python_blocks_to_run(page.read_text(encoding="utf-8")):
        if "lane_jar()" in block.code and lane_jar_if_any() is None:
            continue  # no Java compiler: the tests of the lane are skipped, and say so
        source = "\n" * (block.line - 1) + block.code
        exec(compile(source, str(page), "exec", dont_inherit=True), namespace)


def test_every_option_is_documented_with_its_use_and_default() -> None:
    shown = [row[:3] for row in table_rows(SOURCE, first="option")]
    assert shown == [[f"`{option.name}`", option.use.value, option.default] for option in OPTIONS]


def test_every_column_is_documented() -> None:
    rows = table_rows(SOURCE, first="column")
    assert [name.strip("`") for row in rows for name in row[0].split(", ")] == list(COLUMNS)


def test_the_comparison_with_kafka_names_every_option_and_every_column() -> None:
    ours = {name for row in table_rows(SOURCE, first="Kafka's option") for name in named(row[1])}
    assert ours == {option.name for option in OPTIONS}
    columns = [name for row in table_rows(SOURCE, first="Kafka's column") for name in named(row[1])]
    assert sorted(columns) == sorted(COLUMNS)


def test_every_gap_beside_kafka_is_explained() -> None:
    rows = table_rows(SOURCE, first="Kafka's option") + table_rows(SOURCE, first="Kafka's source otherwise")
    assert [row for row in rows if row[1] == "–" and not row[2]] == []


def named(cell: str) -> list[str]:
    """What stands between backquotes."""
    return re.findall(r"`([^`]+)`", cell)
