"""Bodies of requests about many queues at once (31050 to 31052, and 12 with ``placesOnly``); RocketMQ has none of them.

31050 asks       {"topics": ["orders"], "group": "billing"}
31050 and 31051  {"topics": {"orders": [[0, 0, 12, 7]]}}     answer: number, first offset, end, committed
31052            {"group": "billing", "topics": {"orders": [[0, 7]]}}     number, offset
12               [[0, 7], [3, 1071]]     answer: number and offset of each message that has the key
"""

from __future__ import annotations

from typing import Final, TypeVar

import msgspec

from pyromq.errors import RemoteProtocolError

NOT_COMMITTED: Final = -1
TOPICS_MAX: Final = 10_000
"""Of one request: each of them is looked up in the access rules, before anybody else gets a turn."""
COMMITS_MAX: Final = 10_000
T = TypeVar("T")


class QueueRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One queue: what it holds, offsets [first, end), and where the group of the request stands in it."""

    number: int
    first: int
    end: int
    committed: int = NOT_COMMITTED


class CommitRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The next offset that a group wants of one queue."""

    number: int
    offset: int


class KeyPlace(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Where a message with the key is, in its topic at one broker."""

    number: int
    offset: int


class RangesRequest(msgspec.Struct, frozen=True, kw_only=True):
    """31050: topics, and the group whose committed offsets are wanted too."""

    topics: tuple[str, ...] = ()
    group: str = ""


class RangesResponse(msgspec.Struct, frozen=True, kw_only=True):
    """Queues by topic; a topic that the broker does not have is left out."""

    topics: dict[str, list[QueueRow]] = {}


class CommitsRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Body of request 31052: committed offsets by topic."""

    group: str
    topics: dict[str, list[CommitRow]] = {}


def decode_ranges_request(data: bytes) -> RangesRequest:
    """Decode a request for ranges of queues. Raises RemoteProtocolError."""
    request = _decode(data, _ranges_request)
    _require_few(len(request.topics))
    return request


def decode_commits(data: bytes) -> CommitsRequest:
    """Decode commits of several queues. Raises RemoteProtocolError."""
    request = _decode(data, _commits)
    _require_few(len(request.topics))
    if (rows := sum(map(len, request.topics.values()))) > COMMITS_MAX:
        raise RemoteProtocolError(f"the request has {rows} offsets, at most {COMMITS_MAX} are allowed: commit in parts")
    return request


def decode_ranges(data: bytes) -> RangesResponse:
    """Decode ranges of queues. Raises RemoteProtocolError."""
    return _decode(data, _ranges)


def decode_places(data: bytes) -> list[KeyPlace]:
    """Decode places of messages. Raises RemoteProtocolError."""
    return _decode(data, _places)


def _decode(data: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    """Plain JSON, straight into structs: there may be many thousand rows. Raises RemoteProtocolError."""
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise RemoteProtocolError(f"the body is not about ranges of queues: {error}") from error


_ranges_request: Final = msgspec.json.Decoder(RangesRequest)
_ranges: Final = msgspec.json.Decoder(RangesResponse)
_places: Final = msgspec.json.Decoder(list[KeyPlace])
_commits: Final = msgspec.json.Decoder(CommitsRequest)


def _require_few(topics: int) -> None:
    if topics > TOPICS_MAX:
        raise RemoteProtocolError(f"the request names {topics} topics, at most {TOPICS_MAX} are allowed: ask in parts")


encode = msgspec.json.encode
