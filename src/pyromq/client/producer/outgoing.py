"""Messages on their way out: id, properties, flags and body as they go on the wire, made once for all attempts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from pyromq.client.core.settings import Compression, ProducerSettings
from pyromq.errors import MessageRefusedError, MessageTooLargeError
from pyromq.model.message import Message
from pyromq.model.names import RETRY_PREFIX
from pyromq.wire.batch import ITEM_OVERHEAD_BYTES, BatchItem, encode_batch
from pyromq.wire.codes import RequestCode
from pyromq.wire.compression import compress, compressed_flag
from pyromq.wire.fast.message_properties import properties_text
from pyromq.wire.flags import SysFlag
from pyromq.wire.property_text import encode_text

SEND: Final = int(RequestCode.SEND_MESSAGE_V2)
SEND_BATCH: Final = int(RequestCode.SEND_BATCH_MESSAGE)
SEND_REPLY: Final = int(RequestCode.SEND_REPLY_MESSAGE_V2)


class OutgoingMessage(msgspec.Struct, gc=False):
    """``unique_ids`` of a batch are those of its messages, separated by commas."""

    code: int
    topic: str  # as servers know it
    body: bytes
    properties: str
    unique_ids: str
    born_ms: int
    deadline_ms: int
    flag: int = 0
    sys_flag: int = 0
    retries: int | None = None  # None: as often as the producer's settings say
    restart_deadline_ms: int = 0  # until when it waits for a broker that is away; ``deadline_ms`` if that is later


def pack_body(body: bytes, settings: ProducerSettings) -> tuple[bytes, int]:
    """The body as it travels and the flags that say so: compressed if that makes it smaller."""
    if settings.compression is Compression.NONE:
        return body, 0
    algorithm = SysFlag(settings.compression.value)
    packed = compress(body, algorithm, level=settings.compression_level)
    return (packed, int(compressed_flag(0, algorithm))) if len(packed) < len(body) else (body, 0)


def check_body(body: bytes, bytes_max: int) -> None:
    """Check the size of a body. Raises MessageTooLargeError."""
    if len(body) > bytes_max:
        raise MessageTooLargeError(what="body", size_bytes=len(body), bytes_max=bytes_max)


# --- batches -------------------------------------------------------------------------------------------------------


class BatchPart(msgspec.Struct, frozen=True):
    """Messages of a batch that fit into one request."""

    body: bytes
    unique_ids: tuple[str, ...]


def check_batch(messages: Sequence[Message]) -> None:
    """Check that messages can be one batch. Raises MessageRefusedError."""
    if not messages:
        raise MessageRefusedError("a batch without messages")
    first = messages[0]
    if first.topic.startswith(RETRY_PREFIX):
        raise MessageRefusedError(f"a batch cannot go to a retry topic ({first.topic}); send its messages one by one")
    for message in messages:
        if message.topic != first.topic:
            raise MessageRefusedError(f"a batch is for one topic, not for {first.topic} and {message.topic}")
        if message.wait_stored != first.wait_stored:
            raise MessageRefusedError("the messages of a batch must agree on wait_stored")
        if message.sharding_key != first.sharding_key:
            raise MessageRefusedError("a batch goes to one queue, so its messages must have the same sharding key")
        if message.delay_level or message.delay_ms or message.deliver_at_ms:
            raise MessageRefusedError("messages of a batch cannot be delayed; send delayed messages one by one")
        if message.priority is not None:
            raise MessageRefusedError(
                "messages of a batch have no priority, which chooses a queue; send them one by one"
            )


def split_batch(messages: Sequence[Message], unique_ids: Sequence[str], system: str, bytes_max: int) -> list[BatchPart]:
    """Parts of at most that many bytes, in order. Raises MessageTooLargeError for a message that fits into none."""
    parts: list[BatchPart] = []
    items: list[BatchItem] = []
    ids: list[str] = []
    size = 0
    for message, unique_id in zip(messages, unique_ids, strict=True):
        item = BatchItem(message.body, encode_text(properties_text(message, unique_id, system)), message.flag)
        item_size = ITEM_OVERHEAD_BYTES + len(item.body) + len(item.properties)
        if item_size > bytes_max:
            raise MessageTooLargeError(what="a message of a batch", size_bytes=item_size, bytes_max=bytes_max)
        if size + item_size > bytes_max:
            parts.append(BatchPart(encode_batch(items), tuple(ids)))
            items, ids, size = [], [], 0
        items.append(item)
        ids.append(unique_id)
        size += item_size
    parts.append(BatchPart(encode_batch(items), tuple(ids)))
    return parts
