"""Spark with our source: ``session()`` starts one that suits it, ``register(spark)`` adds it to yours."""

from __future__ import annotations

import os
import sys
import tempfile
from typing import TYPE_CHECKING, Final

from pyromq.pipeline.java import java_home
from pyromq.pipeline.options import SourceOptions, Use, parse_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS: Final = {
    # both together halve the cost of a small batch
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    # names of hosts need not be looked up on one machine
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false",
}
"""For a driver that works alone on its machine; docs/how-to/spark.md says which of them are for clusters too."""
_LISTENER: Final = "_pyromq_listener"
_SOCKET_FOLDER_MAX: Final = 61  # characters; the names of Unix sockets are limited


def session(master: str = "local[*]", app_name: str = "pyromq", **settings: object) -> SparkSession:
    """A SparkSession with the source registered; ``settings`` are Spark's: ``**{"spark.sql.shuffle.partitions": 4}``.

    Raises JavaNotFoundError.
    """
    os.environ["JAVA_HOME"] = str(java_home())
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master).appName(app_name)
    for name, value in {**default_settings(), **settings}.items():
        builder = builder.config(name, _text(value))
    spark = builder.getOrCreate()
    register(spark)
    return spark


def default_settings() -> dict[str, str]:
    """``SETTINGS`` as far as this machine can have them."""
    chosen = dict(SETTINGS)
    if len(tempfile.gettempdir()) > _SOCKET_FOLDER_MAX:
        chosen["spark.python.unix.domain.socket.dir"] = "/tmp"
    return chosen


def register(spark: SparkSession, **options: str) -> None:
    """Makes ``format("pyromq")`` known to a session, and lets groups know of every batch that is done.

    ``options`` as the source has them (``accessKey``, ``secretKey``, ``tls…``): how to reach clusters that ask for
    credentials, to tell groups how far they are. Through Spark Connect there is no listener; the source then tells the
    group at the beginning of the next trigger.
    """
    from pyromq.pipeline.progress import ProgressListener
    from pyromq.pipeline.source import PyromqDataSource

    spark.dataSource.register(PyromqDataSource)
    if _is_classic(spark) and not hasattr(spark, _LISTENER):
        listener = ProgressListener(_reaching(options))
        spark.streams.addListener(listener)
        setattr(spark, _LISTENER, listener)  # Spark cannot be asked which listeners it has


def _is_classic(spark: SparkSession) -> bool:
    return hasattr(spark, "_jsparkSession")


def _reaching(options: dict[str, str]) -> SourceOptions | None:
    return parse_options({"topic": "any", "retryTimeout": "5s", **options}, Use.BATCH) if options else None


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
