"""Templates: the rights that roles need, so that nobody has to find them out one refusal at a time.

All that send or consume may also publish to the trace topic, which RocketMQ's ACL 2.0 does not grant by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final

from pyromq.errors import ConfigError
from pyromq.model.names import DEAD_LETTER_PREFIX
from pyromq.model.system_names import TOOL_GROUP, TRACE_TOPIC
from pyromq.wire.json.access import PolicyEntryInfo

_EVERY_KIND: Final = ("Topic:*", "Group:*", "Cluster:*")


class Template(StrEnum):
    PRODUCER = "producer"
    CONSUMER = "consumer"
    PIPELINE = "pipeline"
    OPERATOR = "operator"
    READ_ONLY = "read-only"


def template_entries(
    template: Template, topics: Sequence[str] = (), groups: Sequence[str] = (), cluster: str = "DefaultCluster"
) -> list[PolicyEntryInfo]:
    """Entries for topics and groups by name, or by prefix with ``*``. Raises ConfigError when some are missing."""
    match template:
        case Template.PRODUCER:
            _require(template, topics=topics)
            return [*_entries("Topic", topics, "Pub"), _trace()]
        case Template.CONSUMER:
            _require(template, topics=topics, groups=groups)
            return [
                *_entries("Topic", topics, "Sub", "Get"),
                *_entries("Group", groups, "Sub", "Get"),
                *_entries("Topic", (DEAD_LETTER_PREFIX + each for each in groups), "Sub", "Get"),
                *_entries("Topic", (f"{cluster}_REPLY_TOPIC",), "Pub"),
                _trace(),
            ]
        case Template.PIPELINE:
            _require(template, topics=topics, groups=groups)
            return [
                *_entries("Topic", topics, "Pub", "Sub", "Get", "Update"),
                *_entries("Group", groups, "Sub", "Get", "Create", "Update"),
                *_entries("Topic", (DEAD_LETTER_PREFIX + each for each in groups), "Pub", "Sub", "Get"),
                *_entries("Group", (TOOL_GROUP,), "Sub"),  # of readers that are in no group
                *_entries("Cluster", ("*",), "Get"),
                _trace(),
            ]
        case Template.OPERATOR:
            return [_entry(each, "Create", "Update", "Delete", "Get", "List") for each in _EVERY_KIND]
        case Template.READ_ONLY:
            return [_entry(each, "Get", "List") for each in _EVERY_KIND]


def _require(template: Template, **names: Sequence[str]) -> None:
    for kind, given in names.items():
        if not given:
            raise ConfigError(f"the template {template.value} needs {kind}: name them, or * for all")


def _entries(kind: str, names: Iterable[str], *actions: str) -> list[PolicyEntryInfo]:
    return [_entry(f"{kind}:{name}", *actions) for name in names]


def _entry(resource: str, *actions: str) -> PolicyEntryInfo:
    return PolicyEntryInfo(resource=resource, actions=actions, decision="Allow")


def _trace() -> PolicyEntryInfo:
    return _entry(f"Topic:{TRACE_TOPIC}", "Pub")
