"""Requests as a test speaks of them: by what they do, and by the topic and group that they are about."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

import msgspec

from pyromq.errors import ConfigError
from pyromq.model.names import RETRY_PREFIX
from pyromq.wire.codes import RequestCode as Code
from pyromq.wire.received import Received

SENDS: Final = frozenset((Code.SEND_MESSAGE, Code.SEND_MESSAGE_V2, Code.SEND_BATCH_MESSAGE))
PULLS: Final = frozenset((Code.PULL_MESSAGE, Code.LITE_PULL_MESSAGE))

KINDS: Final[dict[str, frozenset[Code]]] = {
    "send": SENDS,
    "pull": PULLS,
    "send_back": frozenset((Code.CONSUMER_SEND_MSG_BACK,)),
    "commit": frozenset((Code.UPDATE_CONSUMER_OFFSET,)),
    "offset": frozenset((Code.QUERY_CONSUMER_OFFSET,)),
    "end_transaction": frozenset((Code.END_TRANSACTION,)),
    "heartbeat": frozenset((Code.HEART_BEAT,)),
    "lock": frozenset((Code.LOCK_BATCH_MQ, Code.UNLOCK_BATCH_MQ)),
    "reply": frozenset((Code.SEND_REPLY_MESSAGE, Code.SEND_REPLY_MESSAGE_V2)),
    "recall": frozenset((Code.RECALL_MESSAGE,)),
}

Requests = str | int | Collection[str | int]
"""``"send"``, ``"pull"`` and the other names of ``KINDS``, ``"any"``, request codes, or several of them."""


class RequestFacts(msgspec.Struct, frozen=True):
    """What a rule can ask about."""

    code: int
    topic: str  # of a send-back: the one that the message came from
    group: str  # of consumers, or of producers

    @property
    def name(self) -> str:
        for name, codes in KINDS.items():
            if self.code in codes:
                return name
        return Code(self.code).name.lower() if self.code in Code._value2member_map_ else str(self.code)

    def __str__(self) -> str:
        about = [f"topic {self.topic}"] if self.topic else []
        about += [f"group {self.group}"] if self.group else []
        return f"{self.name} ({', '.join(about)})" if about else self.name


def facts_of(request: Received[Any]) -> RequestFacts:
    header = request.header
    topic = getattr(header, "topic", None) or getattr(header, "origin_topic", None) or ""
    group = getattr(header, "consumer_group", None) or getattr(header, "group", None)
    return RequestFacts(request.code, topic, group or getattr(header, "producer_group", None) or "")


def codes_of(requests: Requests) -> frozenset[int] | None:
    """None stands for all. Raises ConfigError for a name that there is not."""
    if isinstance(requests, int):
        return frozenset((int(requests),))
    if isinstance(requests, str):
        if requests == "any":
            return None
        if requests not in KINDS:
            raise ConfigError(f"there are no requests {requests!r}; there are {', '.join([*KINDS, 'any'])}")
        return frozenset(map(int, KINDS[requests]))
    found = [codes_of(each) for each in requests]
    return None if None in found else frozenset(code for codes in found for code in codes or ())


def retry_group(topic: str) -> str:
    """The group whose retry topic it is; empty for other topics."""
    return topic.removeprefix(RETRY_PREFIX) if topic.startswith(RETRY_PREFIX) else ""
