"""Questions in SQL on Spark: the same names and columns as ``pyromq.sql`` has without it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyromq.pipeline.core.offsets import to_tree
from pyromq.pipeline.core.places import RelativeOffset
from pyromq.pipeline.spark.session import register
from pyromq.pipeline.spark.store_frames import archive_frame, read_store
from pyromq.pipeline.tables.errors import SqlError
from pyromq.pipeline.tables.opening import topic_options
from pyromq.pipeline.tables.question import topic_named
from pyromq.pipeline.tables.sources import held_now

if TYPE_CHECKING:
    from pyspark.errors import AnalysisException
    from pyspark.sql import DataFrame, SparkSession

_TABLES_MAX: Final = 100
_QUOTED_NAMES: Final = "spark.sql.ansi.doubleQuotedIdentifiers"
_NOT_FOUND: Final = "TABLE_OR_VIEW_NOT_FOUND"


def sql_frame(
    spark: SparkSession,
    text: str,
    *,
    nameserver: str = "",
    tables: Mapping[str, str | PathLike[str]] | None = None,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """The answer to a SELECT over topics, as ``pyromq.sql`` would give it, by Spark: ``"dlq:billing"`` and other names
    in double quotes are tables. Views of the session come first; none is left behind. Raises SqlError,
    TopicNotFoundError and what Spark raises for a mistake in the text.
    """
    from pyspark.errors import AnalysisException

    register(spark)
    given = {**(options or {}), **({"nameserver": nameserver} if nameserver else {})}
    folders = {name.lower(): Path(folder).absolute() for name, folder in (tables or {}).items()}
    made: list[str] = []
    try:
        with _quoted_names(spark):
            while True:
                try:
                    return spark.sql(text)
                except AnalysisException as error:
                    name = _missing(error)
                    if not name or name in made or len(made) >= _TABLES_MAX:
                        raise
                    _frame(spark, name, given, folders).createOrReplaceTempView(_quoted(name))
                    made.append(name)
    finally:
        for name in made:
            spark.catalog.dropTempView(name)


def _frame(spark: SparkSession, name: str, given: Mapping[str, str], folders: Mapping[str, Path]) -> DataFrame:
    folder = folders.get(name.lower())
    if folder is None:
        return _topic_frame(spark, name, given)
    if (folder / "commitlog").is_dir():
        return read_store(spark, folder)
    if (folder / "_delta_log").is_dir():
        return spark.read.format("delta").load(str(folder))
    if next(folder.glob("topic=*"), None) is not None:
        return archive_frame(spark, str(folder))
    return spark.read.parquet(str(folder))


def _topic_frame(spark: SparkSession, name: str, given: Mapping[str, str]) -> DataFrame:
    """The topic up to what it has now."""
    options = topic_options(name, given)
    ends = {queue: held.end for queue, held in held_now(options).items()}
    reader = spark.read.format("pyromq").options(**given).option("topic", topic_named(name))
    if options.ending is RelativeOffset.LATEST and not options.namespace:
        reader = reader.option("endingOffsets", json.dumps(to_tree(ends)))
    return reader.load()


def _missing(error: AnalysisException) -> str:
    """The name of a table that Spark does not know, if that is what the error is about."""
    if error.getCondition() != _NOT_FOUND:
        return ""
    name = (error.getMessageParameters() or {}).get("relationName", "")
    if not (name.startswith("`") and name.endswith("`")):
        return name
    if "`.`" in name:
        raise SqlError(f"{name.replace('`', '')}: a table has no other name before its own, with a dot between them")
    return name[1:-1].replace("``", "`")


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


@contextmanager
def _quoted_names(spark: SparkSession) -> Iterator[None]:
    """Text in double quotes is a name, as SQL has it, and not a string."""
    before = spark.conf.get(_QUOTED_NAMES, None)
    spark.conf.set(_QUOTED_NAMES, "true")
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(_QUOTED_NAMES)
        else:
            spark.conf.set(_QUOTED_NAMES, before)
