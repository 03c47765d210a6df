"""Names of queues, tasks and ids as RocketMQ takes them: for topics, groups, tags and keys."""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import Final

from pyromq.model.names import GROUP_CHARACTERS_MAX, TOPIC_CHARACTERS_MAX
from pyromq.model.property_names import ITEM_END, NAME_END

_DIGEST_BYTES: Final = 6
_TEXT_MAX: Final = 255  # of a tag or a key
_not_allowed = re.compile(r"[^a-zA-Z0-9_-]")  # RocketMQ would take % and |, which mean something to it elsewhere


def topic_of(queue: str) -> str:
    """The name itself where it may be a topic's; else what is left of it, and a digest that keeps names apart."""
    return _name_of(queue, TOPIC_CHARACTERS_MAX)


def group_of(prefix: str, queue: str) -> str:
    """The group that consumes a queue: members of a group must read the same topics, so each queue has its own."""
    return _name_of(f"{prefix}-{queue}", GROUP_CHARACTERS_MAX)


def _name_of(name: str, characters_max: int) -> str:
    plain = _not_allowed.sub("-", name)
    if plain == name and 0 < len(name) <= characters_max:
        return name
    digest = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES).hexdigest()
    return f"{plain[: characters_max - len(digest) - 1]}-{digest}"


def tag_of(task: object) -> str:
    """A task's name as a tag; empty where it cannot be one."""
    return _text_of(task) if "|" not in str(task) else ""


def keys_of(*ids: object) -> tuple[str, ...]:
    """Ids as keys, which ``pyromq message find`` takes; those that cannot be keys are left out."""
    return tuple(key for each in ids if (key := _text_of(each)) and not any(map(str.isspace, key)))


def _text_of(value: object) -> str:
    if not isinstance(value, str) or len(value) > _TEXT_MAX or NAME_END in value or ITEM_END in value:
        return ""
    try:
        value.encode()
    except UnicodeEncodeError:
        return ""
    return value
