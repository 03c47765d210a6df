"""One Spark for all of these tests, started as users start it, with settings that make it quick."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyromq.pipeline import session
from pyromq.pipeline.spark.jvm.jar import lane_jar_if_any
from pyromq.testing import LoopbackBroker
from tests.spark.topics import Topics

QUICK: dict[str, Any] = {
    "spark.ui.enabled": False,
    "spark.sql.shuffle.partitions": 2,
    "spark.default.parallelism": 2,
    "spark.sql.streaming.noDataProgressEventInterval": 200,
    "spark.sql.streaming.minBatchesToRetain": 10,
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData",
    "spark.log.level": "OFF",
}


HEAP = (
    "640m"  # of every JVM: with code, classes and threads it stays below the 1 GB that a process of the tests may have
)


@pytest.fixture(scope="session", autouse=True)
def small_heaps() -> Iterator[None]:
    """Drivers and executors, also those that tests start as processes, get less than Spark's 1 GB of heap."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_DRIVER_MEMORY", HEAP)
        patch.setenv("SPARK_EXECUTOR_MEMORY", HEAP)
        yield


@pytest.fixture(scope="session")
def spark(small_heaps: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("spark")
    started = session("local[2]", **QUICK, **{"spark.sql.warehouse.dir": folder, "spark.local.dir": folder})
    yield started
    started.stop()


@pytest.fixture(scope="session")
def broker() -> Iterator[LoopbackBroker]:
    with LoopbackBroker() as running:
        yield running


@pytest.fixture
def topics(broker: LoopbackBroker, request: pytest.FixtureRequest) -> Iterator[Topics]:
    with Topics(broker.nameserver, request.node.name) as made:
        yield made


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    return str(tmp_path / "checkpoint")


@pytest.fixture
def lane_jar_or_skip() -> None:
    """There is a JVM lane here."""
    if lane_jar_if_any() is None:
        pytest.skip("there is no Java compiler for the JVM lane")


@pytest.fixture(params=("auto", pytest.param("python", marks=pytest.mark.more)))
def default_lane(spark: Any, request: pytest.FixtureRequest) -> Iterator[None]:
    """Queries get the lane that they have by themselves; once more, in ``make test-more``, Python's."""
    if request.param != "auto":
        spark.conf.set("spark.pyromq.lane", request.param)
    yield
    spark.conf.unset("spark.pyromq.lane")


@pytest.fixture(params=("python", "jvm"))
def lane(spark: Any, request: pytest.FixtureRequest) -> Iterator[str]:
    """Each lane in turn, for the queries of a test that name none."""
    if request.param == "jvm" and lane_jar_if_any() is None:
        pytest.skip("there is no Java compiler for the JVM lane")
    spark.conf.set("spark.pyromq.lane", request.param)
    yield request.param
    spark.conf.unset("spark.pyromq.lane")
