"""How a session is set up for where Spark runs; without any Spark."""

from __future__ import annotations

import re
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from pyromq.errors import ConfigError
from pyromq.pipeline.spark.progress import ProgressListener
from pyromq.pipeline.spark.session import _FAREWELL, _check_connect, default_settings, is_connect, register

ONE_MACHINE = {"spark.driver.host", "spark.driver.bindAddress", "spark.sql.streaming.checkpointFileManagerClass"}


class Streams:
    """Like those of Spark Connect: the first listener starts a thread, which ends with Spark."""

    def __init__(self) -> None:
        self.listeners: list[Any] = []
        self.is_daemon: bool | None = None

    def addListener(self, listener: Any) -> None:  # noqa: N802
        self.listeners.append(listener)
        events = threading.Thread(target=lambda: None)
        self.is_daemon = events.daemon


def session_of(**more: Any) -> Any:
    registered: list[Any] = []
    found = SimpleNamespace(streams=Streams(), dataSource=SimpleNamespace(register=registered.append), **more)
    found.registered = registered
    return found


@pytest.mark.parametrize("master", ["local", "local[*]", "local-cluster[2,1,1024]"])
def test_one_machine_needs_no_names_of_hosts(master: str) -> None:
    assert default_settings(master).keys() >= ONE_MACHINE


@pytest.mark.parametrize("master", ["spark://host:7077", "yarn", "k8s://https://host", "sc://host"])
def test_a_cluster_keeps_its_names_and_its_checkpoints(master: str) -> None:
    assert not default_settings(master).keys() & ONE_MACHINE
    assert default_settings(master)["spark.python.unix.domain.socket.enabled"] == "true"


@pytest.mark.parametrize("master", ["local[2]", "spark://host:7077"])
def test_functions_of_pandas_get_rows_and_not_the_small_batches_of_the_jvm_lane(master: str) -> None:
    assert default_settings(master)["spark.sql.execution.arrow.pythonUDF.columnarInput.enabled"] == "false"


@pytest.mark.parametrize("here", [True, False])
@pytest.mark.filterwarnings("default")
def test_progress_is_listened_to_once_wherever_spark_is(here: bool) -> None:
    spark = session_of(_jsparkSession=None) if here else session_of()
    assert is_connect(spark) is not here
    register(spark)
    register(spark)
    assert [source.name() for source in spark.registered] == ["pyromq"]
    assert [type(listener) for listener in spark.streams.listeners] == [ProgressListener]
    assert spark.streams.is_daemon is not here, "a thread for events must not keep a program from ending"


def test_what_spark_has_found_by_itself_is_not_registered() -> None:
    asked: list[str] = []
    manager = SimpleNamespace(dataSourceExists=lambda name: asked.append(name) or True)
    state = SimpleNamespace(dataSourceManager=lambda: manager)
    spark = session_of(_jsparkSession=SimpleNamespace(sessionState=lambda: state))
    register(spark)
    assert (asked, spark.registered) == (["pyromq"], [])


def test_what_spark_connect_lacks_is_named() -> None:
    _check_connect(lambda name: name)
    with pytest.raises(ConfigError, match=r"needs grpc_status: .*pyromq\[pipeline-connect\]"):
        _check_connect(lambda name: None if name == "grpc_status" else name)


@pytest.mark.parametrize("end", ["cannot schedule new futures after shutdown", "… after interpreter shutdown"])
def test_what_spark_connect_says_at_the_end_of_a_program_is_known(end: str) -> None:
    head = "StreamingQueryListenerBus Handler thread received exception, all client side listeners are removed"
    assert re.match(_FAREWELL, f"{head} and handler thread is terminated. The error is: {end}")
    assert not re.match(_FAREWELL, f"{head} and handler thread is terminated. The error is: it broke")
