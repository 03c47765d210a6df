"""A Java runtime without a compiler: Python reads and writes, and says nothing of Spark's that is no news to users."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pyromq.pipeline.spark.java import java_home
from tests.spark.test_sink import bodies_of
from tests.spark.topics import Topics

pytestmark = pytest.mark.spark
PROGRAM = """
import sys
from pyromq.pipeline import register, session

spark = session("local[2]", **{"spark.ui.enabled": False})
register(spark)
to_broker, folder = {"nameserver": sys.argv[1]}, sys.argv[4]
options = {**to_broker, "topic": sys.argv[2], "batchRows": "50", "gatherBytes": "64k"}
for _ in range(2):
    # each task has more than its socket holds when Spark has enough
    frame = spark.read.format("pyromq").options(**options).load()
    assert frame.limit(1).count() == 1
    assert len(spark.read.format("pyromq").options(**options).load().take(1)) == 1
assert "lane=jvm" not in frame._jdf.queryExecution().toString()
try:
    spark.read.format("pyromq").options(**options, lane="jvm").load()
except Exception as error:
    assert "option lane: jvm is not there" in str(error), error
else:
    raise AssertionError("there is no lane")
writing = {**to_broker, "topic": sys.argv[3], "mode": "idempotent"}
frame = spark.range(3).selectExpr("concat('row-', id) AS body")
frame.write.format("pyromq").options(**writing, sinkId="one").mode("append").save()
stream = spark.readStream.format("pyromq").options(**options, group="g", startingOffsets="earliest")
stream = stream.load().selectExpr("substring(string(body), 1, 3) AS body")
query = stream.writeStream.format("pyromq").options(**writing, checkpointLocation=folder).trigger(availableNow=True)
query = query.start()
assert query.awaitTermination(300)
assert "lane=jvm" not in query.lastProgress.sources[0].description + query.lastProgress.sink.description
spark.stop()
"""


@pytest.fixture
def without_compiler(tmp_path: Path) -> dict[str, str]:
    """An environment in which there is Java, and no ``javac``, and no jar that one has made before."""
    home, programs = tmp_path / "java", tmp_path / "programs"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text(f'#!/bin/sh\nexec "{java_home()}/bin/java" "$@"\n')
    (home / "bin" / "java").chmod(0o755)
    programs.mkdir()
    for folder in map(Path, os.environ["PATH"].split(os.pathsep)):
        for program in folder.iterdir() if folder.is_dir() else ():
            if program.name != "javac" and not (programs / program.name).is_symlink():
                (programs / program.name).symlink_to(program)
    return {
        **os.environ,
        "PATH": str(programs),
        "JAVA_HOME": str(home),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }


def test_without_a_compiler_python_reads_and_writes_and_prints_nothing_of_sparks(
    topics: Topics, tmp_path: Path, without_compiler: dict[str, str]
) -> None:
    topic, target = topics.make(queues=2), topics.make("-out")
    topics.send(topic, [f"{number}" * 20_000 for number in range(100, 300)])
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    assert shutil.which("javac", path=without_compiler["PATH"]) is None
    done = subprocess.run(
        [sys.executable, program, topics.nameserver, topic, target, str(tmp_path / "checkpoint")],
        env=without_compiler, cwd=tmp_path, capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for words in ("registered data source", "BrokenPipeError", "Traceback"):
        assert words not in done.stderr, done.stderr
    assert sum(bodies_of(topics, target).values()) == 203
