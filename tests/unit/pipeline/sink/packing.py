"""Packers over a topic with three queues, and what their requests hold."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from pyromq.model.queue import QueueId
from pyromq.pipeline.core.options import Use
from pyromq.pipeline.sink.joined import JoinedPacker
from pyromq.pipeline.sink.keys import RowKeys
from pyromq.pipeline.sink.options import SinkOptions, parse_sink_options
from pyromq.pipeline.sink.requests import Packer, SinkRequest
from pyromq.wire.batch import decode_batch
from pyromq.wire.properties import decode_properties

QUEUES = [QueueId("out", "a", 0), QueueId("out", "a", 1), QueueId("out", "b", 0)]


def parse(use: Use = Use.STREAM, **given: str) -> SinkOptions:
    return parse_sink_options({"nameserver": "n:1", **given}, use)


def packer(options: SinkOptions | None = None, **more: Any) -> Packer:
    return Packer(options or parse(topic="out"), RowKeys("query", 1, 2), lambda topic: QUEUES, **more)


def joining(options: SinkOptions | None = None) -> JoinedPacker:
    return JoinedPacker(options or parse(topic="out"), RowKeys("query", 1, 2))


def packed(made: Packer | JoinedPacker, *batches: pa.RecordBatch) -> list[SinkRequest]:
    return [request for batch in batches for request in made.pack(batch)] + list(made.rest())


def rows_of(requests: list[SinkRequest]) -> list[tuple[bytes, dict[str, str]]]:
    items = [item for request in requests for item in decode_batch(request.body).items()]
    return [(item.body, decode_properties(item.properties)) for item in items]
