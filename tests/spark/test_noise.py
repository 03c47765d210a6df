"""What users read on their terminals: nothing of Spark's that is no news to them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.topics import Topics

pytestmark = pytest.mark.spark
PROGRAM = """
import sys
from pyromq.pipeline import read_store, register, session

spark = session("local[2]", **{"spark.ui.enabled": False})
register(spark)
options = {"nameserver": sys.argv[1], "topic": sys.argv[2], "batchRows": "50", "gatherBytes": "64k"}
for _ in range(2):
    # each task has more than its socket holds when Spark has enough
    assert spark.read.format("pyromq").options(**options).load().limit(1).count() == 1
    assert len(spark.read.format("pyromq").options(**options).load().take(1)) == 1
spark.stop()
"""


def test_a_program_that_takes_a_few_rows_prints_nothing_of_sparks(topics: Topics, tmp_path: Path) -> None:
    topic = topics.make(queues=2)
    topics.send(topic, [f"{number}" * 20_000 for number in range(100, 300)])
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, program, topics.nameserver, topic],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        cwd=tmp_path, capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for words in ("registered data source", "BrokenPipeError", "Traceback"):
        assert words not in done.stderr, done.stderr
