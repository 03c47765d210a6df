"""A store folder with three topics."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from pyromq.pipeline.arrow.columns import ARROW_TYPES
from pyromq.pipeline.store_files.log import (
    log_files,
    plan_stretches,
)
from pyromq.pipeline.store_files.rows import Chosen, decode_stretch

COLUMNS = ("topic", "queue_id", "queue_offset", "tags", "commit_log_offset", "body")

SCHEMA = pa.schema([(name, ARROW_TYPES[name]) for name in COLUMNS])


def rows(folder: Path, stretch_bytes: int = 1 << 30, chosen: Chosen | None = None) -> list[dict[str, object]]:
    stretches = plan_stretches(log_files(folder), stretch_bytes)
    batches = [batch for each in stretches for batch in decode_stretch(each, SCHEMA, chosen)]
    return [row for batch in batches for row in batch.to_pylist()]
