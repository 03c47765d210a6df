"""Rows that no broker would take: they end the task, or go to a topic or a folder, each with the reason.

    badRows = fail            the task ends with column and row
              orders-bad      messages in a topic, one for each row
              /data/bad       a file of JSON lines for each task that has some; also s3://…, hdfs://…

A row goes there as JSON, whole: number, reason and columns, with bytes in base 64. Rows are found by packing them on
trial and halving what does not pass, so a batch without bad rows is packed twice. A task that is run again writes them
again.
"""

from __future__ import annotations

import base64
import json
import logging
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, Protocol

import pyarrow as pa

from pyromq.errors import MessageRefusedError, MessageTooLargeError
from pyromq.model import property_names as names
from pyromq.pipeline.core.checkpoint_log import files_at
from pyromq.pipeline.core.connections import Connected
from pyromq.pipeline.sink.options import BATCH_BYTES_MAX, Mode, SinkOptions
from pyromq.pipeline.sink.requests import SinkRequest
from pyromq.pipeline.sink.sender import RequestSender
from pyromq.wire.property_text import join_items

logger = logging.getLogger(__name__)

TAG: Final = "bad-row"
_TEXT_MAX: Final = BATCH_BYTES_MAX // 4  # of one value; longer ones are cut, so that the rest can be sent


class RowPacker(Protocol):
    """What both packers have."""

    row: int

    def pack(self, batch: pa.RecordBatch) -> Iterator[SinkRequest]: ...
    def rest(self) -> Iterator[SinkRequest]: ...


@dataclass(frozen=True, slots=True)
class BadRow:
    """One row and why it was refused."""

    row: int
    reason: str
    columns: dict[str, Any]

    def as_json(self) -> str:
        columns = {name: _as_json(value) for name, value in self.columns.items()}
        return json.dumps({"row": self.row, "reason": self.reason, "columns": columns}, ensure_ascii=False)


def _as_json(value: Any) -> Any:
    match value:
        case bytes():
            cut = {"cut": len(value)} if len(value) > _TEXT_MAX else {}
            return {"base64": base64.b64encode(value[:_TEXT_MAX]).decode(), **cut}
        case str():
            return value[:_TEXT_MAX]
        case datetime():
            return value.isoformat()
        case list() | tuple():
            return [_as_json(each) for each in value]
        case _:
            return value


class SideOutput(Protocol):
    """Where bad rows go."""

    def put(self, row: BadRow) -> None: ...
    def finish(self) -> None:
        """All of them are safe when it returns."""


class Sieve:
    """Parts the rows of one task: good ones pass, bad ones go to the side output.

    ``trial`` makes a packer whose requests nobody sends.
    """

    def __init__(self, trial: Callable[[pa.RecordBatch], RowPacker], output: SideOutput) -> None:
        self._trial = trial
        self._output = output
        self._seen = 0  # rows
        self.bad = 0

    def good_rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch without its bad rows."""
        bad = list(self._bad_of(batch, self._seen))
        for number, reason in bad:
            if not self.bad:
                logger.warning("rows that cannot be sent are set aside, the first: %s", reason)
            self.bad += 1
            (columns,) = batch.slice(number - self._seen, 1).to_pylist()
            self._output.put(BadRow(number, reason, columns))
        without = {number - self._seen for number, _ in bad}
        self._seen += batch.num_rows
        if not without:
            return batch
        return batch.filter(pa.array([number not in without for number in range(batch.num_rows)]))

    def finish(self) -> None:
        self._output.finish()

    def _bad_of(self, batch: pa.RecordBatch, first: int) -> Iterator[tuple[int, str]]:
        if not batch.num_rows:
            return
        packer = self._trial(batch)
        packer.row = first
        try:
            for _ in packer.pack(batch):
                pass
        except (MessageRefusedError, MessageTooLargeError) as error:
            if batch.num_rows == 1:
                yield first, str(error)
                return
            half = batch.num_rows // 2
            yield from self._bad_of(batch.slice(0, half), first)
            yield from self._bad_of(batch.slice(half), first + half)


class TopicOutput:
    """Bad rows as messages of a topic."""

    def __init__(self, connected: Connected, options: SinkOptions) -> None:
        self._topic = options.bad_rows
        self._sender = RequestSender(connected, replace(options, topics=(options.bad_rows,), mode=Mode.AT_LEAST_ONCE))

    def put(self, row: BadRow) -> None:
        key = uuid.uuid4().hex.upper()
        properties = join_items([(names.UNIQUE_KEY, key), (names.TAGS, TAG)])
        self._sender.put(SinkRequest(self._topic, None, row.as_json().encode(), [key], properties))

    def finish(self) -> None:
        self._sender.finish()


class FolderOutput:
    """Bad rows as lines of a file, which is made with the first."""

    def __init__(self, folder: str, name: str) -> None:
        self._folder = folder
        self._name = f"{name}-{uuid.uuid4().hex[:8]}.jsonl"
        self._stream: pa.NativeFile | None = None

    def put(self, row: BadRow) -> None:
        if self._stream is None:
            files, base = files_at(self._folder)
            files.create_dir(base, recursive=True)
            self._stream = files.open_output_stream(f"{base.rstrip('/')}/{self._name}")
        self._stream.write(f"{row.as_json()}\n".encode())

    def finish(self) -> None:
        if self._stream is not None:
            self._stream.close()


def is_folder(place: str) -> bool:
    """Whether bad rows go to a folder; else it is a topic."""
    return "/" in place


def side_output(connected: Connected, options: SinkOptions, task_name: str) -> SideOutput:
    """Where the options say that bad rows go."""
    if is_folder(options.bad_rows):
        return FolderOutput(options.bad_rows, f"bad-rows-{task_name}")
    return TopicOutput(connected, options)
