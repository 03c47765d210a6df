"""Settings of Spark's own Parquet writer for an archive: it leaves out what ours leaves out (``writer``)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from pyromq.pipeline.jobs.archiving.writer import GROUP_BYTES, OPEN_MAX

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOLDERS: Final = (  # in UTC, whatever the time zone of the session
    "date_from_unix_date(int(unix_seconds(store_time) div 86400)) AS date",
    "int(unix_seconds(store_time) div 3600 % 24) AS hour",
)
OPEN_FILES_SETTING: Final = "spark.sql.maxConcurrentOutputFileWriters"
# values of which hardly two are the same: hashing each for a dictionary costs more than writing it
_ALL_DIFFERENT: Final = (
    *("body", "message_id", "offset_message_id", "keys", "queue_offset", "commit_log_offset", "body_crc"),
    *("born_time", "store_time", "properties.key_value.value"),
)
# rows are not searched by these
_NOT_REPORTING: Final = (
    *("body", "offset_message_id", "body_crc"),
    *("properties.key_value.key", "properties.key_value.value"),
)
PARQUET_OPTIONS: Final = {
    **{f"parquet.enable.dictionary#{column}": "false" for column in _ALL_DIFFERENT},
    **{f"parquet.column.statistics.enabled#{column}": "false" for column in _NOT_REPORTING},
    "parquet.block.size": str(GROUP_BYTES),
    "parquet.page.write-checksum.enabled": "false",
    # else Hadoop writes 4 KiB at a time into local files, and a file of checksums beside each
    "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "fs.file.impl.disable.cache": "true",
}


@contextmanager
def several_files_open(spark: SparkSession) -> Iterator[None]:
    """Queries that start meanwhile write into some folders at once; else Spark sorts all rows by folder first."""
    if spark.conf.get(OPEN_FILES_SETTING, "0") != "0":
        yield  # it is the user's choice
        return
    spark.conf.set(OPEN_FILES_SETTING, str(OPEN_MAX))
    try:
        yield  # a query keeps the settings it starts with
    finally:
        spark.conf.unset(OPEN_FILES_SETTING)
