"""The Spark session of a command, kept quiet, and the bar that shows the progress of a job.

The JVM and the Python workers it starts write to the error output that this process has when the JVM is started. So for
that moment it is a file: the one of ``--spark-log``, or a temporary one that is read only if the start fails.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TextIO

from pyromq.cli.output.quiet import is_quiet
from pyromq.cli.pipeline.options import SparkOptions, pairs
from pyromq.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_reason = re.compile(rb"^(?:Error|Exception in thread|Caused by|.*[Ee]xception:|.*rror:).*$", re.MULTILINE).findall


@contextmanager
def started(options: SparkOptions, settings: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """``--conf`` overrides ``settings``. Raises ConfigError for what is not installed or does not start."""
    from pyromq.pipeline.spark.requirements import what_is_missing

    chosen = {**_defaults(options), **(settings or {}), **pairs(options.conf)}
    if missing := what_is_missing(options.master):
        raise ConfigError(missing)
    with _log_file(options.spark_log) as log:
        spark = _start(options.master, chosen, log)
        try:
            with _failures_of_this_machine():
                yield spark
        finally:
            with suppress(*_lost_spark()):  # that it is gone was reported already
                spark.stop()


@contextmanager
def _failures_of_this_machine() -> Iterator[None]:
    """A folder that cannot be written, a JVM that was killed. Raises ConfigError, JobFailedError."""
    from pyromq.pipeline.jobs.common.errors import JobFailedError

    try:
        yield
    except _lost_spark() as error:
        raise JobFailedError("Spark is gone: was it killed, or out of memory? Run the command again") from error
    except OSError as error:
        if error.filename is None:  # not about a file: left to the caller
            raise
        raise ConfigError(f"{error.strerror}: {error.filename}") from error


def _lost_spark() -> tuple[type[Exception], ...]:
    try:
        from py4j.protocol import Py4JNetworkError  # type: ignore[import-untyped]
    except ImportError:  # the client of Spark Connect alone comes without it
        return ()
    return Py4JNetworkError, ConnectionRefusedError


@contextmanager
def bar(title: str, out: TextIO | None = None) -> Iterator[Any]:
    from pyromq.pipeline.jobs.common import bars

    if is_quiet():
        yield lambda *_: None
        return
    with bars.bar(title, out) as tell:
        yield tell


def _defaults(options: SparkOptions) -> dict[str, str]:
    chosen = {"spark.ui.enabled": "false", "spark.log.level": "WARN" if options.spark_log else "OFF"}
    if options.master.startswith("local"):
        chosen["spark.sql.shuffle.partitions"] = str(2 * (os.cpu_count() or 1))  # 200 are for clusters: they cost
    return chosen


def _start(master: str, settings: Mapping[str, str], log: IO[bytes]) -> SparkSession:
    from pyromq.pipeline import session
    from pyromq.pipeline.jobs.common.errors import JobFailedError
    from pyromq.pipeline.jobs.common.queries import failures_in_words

    _hush()
    try:
        with os.fdopen(os.dup(2), "w") as terminal, bar("starting Spark", terminal), _errors_into(log):
            with failures_in_words():
                spark = session(master, "pyromq pipeline", **settings)
    except JobFailedError as error:
        raise ConfigError(f"Spark does not start: {_why(str(error.__cause__), log)}") from error
    # Spark's own handler talks to the JVM, in the middle of another word to it, and fails at length
    signal.signal(signal.SIGINT, signal.default_int_handler)
    return spark


def _hush() -> None:
    """Silences Spark's tracebacks for a lost JVM and for Ctrl-C, which we report, and its JSON for a wrong column."""
    from pyspark.logger import PySparkLogger

    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(lambda record: not record.getMessage().startswith("KeyboardInterrupt while sending"))
    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True
    with suppress(ImportError):  # the client of Spark Connect alone comes without it
        from pyspark import accumulators

        for kind in (accumulators.AccumulatorTCPServer, accumulators.AccumulatorUnixServer):
            kind.handle_error = lambda *_: None  # type: ignore[method-assign]  # "the JVM stopped", when we stop it


def _why(text: str, log: IO[bytes]) -> str:
    """The line that matters: of the error, or of what the JVM wrote when it ended at once."""
    if "JAVA_GATEWAY_EXITED" in text:
        log.seek(0)
        lines = _reason(log.read())
        return lines[-1].decode("utf-8", "replace").strip() if lines else "Java exited at once without an error message"
    lines = [line for line in text.splitlines() if line.strip()]
    cause = next((line for line in lines if line.startswith(": ")), lines[0])  # ": org.apache…Exception: text"
    return re.sub(r"^: (?:[\w.$]+: )?", "", cause)


@contextmanager
def _log_file(path: Path | None) -> Iterator[IO[bytes]]:
    try:
        log = path.open("a+b") if path else tempfile.TemporaryFile()
    except OSError as error:
        raise ConfigError(f"--spark-log: {error.strerror}: {path}") from error
    with log:
        yield log


@contextmanager
def _errors_into(log: IO[bytes]) -> Iterator[None]:
    """Processes started inside the block write their errors there."""
    sys.stderr.flush()
    kept = os.dup(2)
    os.dup2(log.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
