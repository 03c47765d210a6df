"""A stream goes on from the checkpoint that an earlier state of PyroMQ wrote: every message once."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from pyromq.testing import ServerProcess

ARCHIVES = sorted((Path(__file__).parents[1] / "upgrade/corpus").glob("*-more.tar.xz"))


@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda archive: archive.name.split(".")[0])
def test_a_stream_goes_on_where_an_earlier_state_stopped(spark: Any, archive: Path, tmp_path: Path) -> None:
    subprocess.run(["tar", "-xSf", archive, "-C", tmp_path], check=True)
    folder = tmp_path / "more"
    found: list[str] = []
    written = json.loads((folder / "written.json").read_text())
    with ServerProcess("up", data=folder / "data") as server:
        options = {"nameserver": server.nameserver, "topic": "orders", "group": "lake", "startingOffsets": "earliest"}
        rows = spark.readStream.format("pyromq").options(**options).load().selectExpr("cast(body as string) body")
        query = rows.writeStream.foreachBatch(lambda batch, number: found.extend(row.body for row in batch.collect()))
        query = query.option("checkpointLocation", str(folder / "checkpoint"))
        query.trigger(availableNow=True).start().awaitTermination()
    first = written["read"]
    assert sorted(found) == sorted(f"order {number}" for number in range(first, first + written["left"]))
