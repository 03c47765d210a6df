"""Spark sessions with our source: ``session()`` starts one that suits it, ``register(spark)`` adds it to yours."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, Final

from pyromq.errors import ConfigError
from pyromq.pipeline.core.option_texts import option_text
from pyromq.pipeline.core.options import SourceOptions, Use, parse_options
from pyromq.pipeline.spark.home import light_home, started_from
from pyromq.pipeline.spark.java import cache_folder, java_home
from pyromq.pipeline.spark.jvm.jar import lane_jar_if_any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource

    from pyromq.pipeline.spark.progress import ProgressListener

logger = logging.getLogger(__name__)

SETTINGS: Final = {
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.python.filterPushdown.enabled": "true",  # conditions on columns are given to sources of Python
    # a batch of the JVM lane is a pull of some hundred rows: functions of pandas get ten thousand at once without it
    "spark.sql.execution.arrow.pythonUDF.columnarInput.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
"""For every Spark."""
ALONE: Final = {
    # safe where one driver has the checkpoint to itself; with the sockets it halves the cost of a small batch
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    # names of hosts need not be looked up on one machine
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}
"""For a Spark that works alone on its machine (``local``)."""
_CONNECT: Final = "sc://"
_CONNECT_NEEDS: Final = ("grpc", "grpc_status", "pandas")
# what Spark says of listeners when a program ends, with and without stopping its session
_FAREWELL: Final = (
    r"Failed to remove the listener because of exception: \[NO_ACTIVE_SESSION\]"
    r"|StreamingQueryListenerBus Handler thread received exception, .*\bafter (interpreter )?shutdown"
)
_JARS: Final = "spark.jars"
_LISTENER: Final = "_pyromq_listener"
_KNOWN: Final = "_pyromq_sources"
_SOCKET_FOLDER_MAX: Final = 61  # characters; the names of Unix sockets are limited


def session(master: str = "local[*]", app_name: str = "pyromq", **settings: object) -> SparkSession:
    """A SparkSession with the source registered; ``settings`` are Spark's: ``**{"spark.sql.shuffle.partitions": 4}``.

    ``master`` is Spark's: ``local[4]``, ``spark://host:7077``, ``yarn``; or ``sc://host:15002`` for a Spark Connect
    server, which has its own Java, and takes of the settings those of SQL. Raises JavaNotFoundError, ConfigError.
    """
    if master.startswith(_CONNECT):
        _check_connect()
    else:
        os.environ["JAVA_HOME"] = str(java_home())
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    builder = builder.remote(master) if master.startswith(_CONNECT) else builder.master(master).appName(app_name)
    for name, value in _with_lane(master, {**default_settings(master), **settings}).items():
        if not master.startswith(_CONNECT) or name.startswith("spark.sql."):
            builder = builder.config(name, option_text(value))
    with started_from(_home(master)):
        spark = builder.getOrCreate()
    register(spark)
    return spark


def _with_lane(master: str, settings: dict[str, object]) -> dict[str, object]:
    """With the jar of the JVM lane, where this machine can have it: Spark takes it from the start only."""
    from pyspark import SparkContext

    if master.startswith(_CONNECT) or SparkContext._active_spark_context is not None:
        return settings
    jar = lane_jar_if_any()
    given = str(settings.get(_JARS) or "")
    return settings if jar is None else {**settings, _JARS: f"{given},{jar}" if given else str(jar)}


def _home(master: str) -> Path | None:
    """None where workers may have another Python than ours, or there is no folder to write to."""
    if not master.startswith("local") or os.environ["PYSPARK_PYTHON"] != sys.executable:
        return None
    import pyspark

    try:
        return light_home(Path(pyspark.__file__).parent, cache_folder())
    except OSError:
        return None


def default_settings(master: str = "local[*]") -> dict[str, str]:
    """Those that suit the master, as far as this machine can have them."""
    chosen = {**SETTINGS, **ALONE} if master.startswith("local") else dict(SETTINGS)
    if len(tempfile.gettempdir()) > _SOCKET_FOLDER_MAX:
        chosen["spark.python.unix.domain.socket.dir"] = "/tmp"
    return chosen


def register(spark: SparkSession, **options: str) -> None:
    """Makes ``format("pyromq")`` known to a session, and lets groups know of every batch that is done.

    ``options`` as the source has them (``accessKey``, ``secretKey``, ``tls…``): how to reach clusters that ask for
    credentials, to report how far groups are. This is done from this process; where it cannot reach the brokers, as
    may be with Spark Connect, the source reports it at the beginning of the next trigger.
    """
    from pyromq.pipeline.spark.progress import ProgressListener
    from pyromq.pipeline.spark.source import PyromqDataSource

    make_known(spark, PyromqDataSource)
    if not hasattr(spark, _LISTENER):
        listener = ProgressListener(_reaching(options))
        _listen(spark, listener)
        setattr(spark, _LISTENER, listener)  # Spark cannot be asked which listeners it has


def make_known(spark: SparkSession, source: type[DataSource]) -> None:
    """Registers a data source unless Spark has it, found by itself or registered before: of a second one it warns."""
    known: set[str] = spark.__dict__.setdefault(_KNOWN, set())
    if source.name() not in known and not _has_found(spark, source.name()):
        spark.dataSource.register(source)
    known.add(source.name())


def _has_found(spark: SparkSession, name: str) -> bool:
    """Whether Spark found a data source where Python packages are (``pyspark_pyromq``), as it does to register one."""
    if is_connect(spark):
        return False  # there is nobody to ask; a warning goes to the server's log
    try:
        state: Any = spark._jsparkSession.sessionState()
        return bool(state.dataSourceManager().dataSourceExists(name))
    except Exception as error:  # another Spark may have another inside: then we register, and it may warn
        logger.debug("data sources not known: error=%r", error)
        return False


def is_connect(spark: SparkSession) -> bool:
    """Whether Spark is elsewhere: its files are not ours, and what it calls runs in its own processes."""
    return not hasattr(spark, "_jsparkSession")


def _check_connect(find: Callable[[str], object] = find_spec) -> None:
    if missing := [name for name in _CONNECT_NEEDS if find(name) is None]:
        text = f"Spark Connect needs {', '.join(missing)}: run pip install 'pyromq[pipeline-connect]'"
        raise ConfigError(text)


def _listen(spark: SparkSession, listener: ProgressListener) -> None:
    """Through Spark Connect events come on a thread of this process; it must not keep the program from ending."""
    if not is_connect(spark):
        spark.streams.addListener(listener)
        return
    warnings.filterwarnings("ignore", message=_FAREWELL)
    adding = Thread(target=spark.streams.addListener, args=(listener,), daemon=True)  # what it starts is a daemon too
    adding.start()
    adding.join()


def _reaching(options: dict[str, str]) -> SourceOptions | None:
    return parse_options({"topic": "any", "retryTimeout": "5s", **options}, Use.BATCH) if options else None
