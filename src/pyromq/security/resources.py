"""Resources and actions: what a policy is about, and what it allows to do with it.

    Topic:orders    one topic        Topic:order*   topics whose names begin so        Topic:*   every topic
    Group:…, Cluster:… likewise      *              everything

A request names resources (``Resource``), a policy patterns of them (``ResourcePattern``). A request about all topics at
once names ``Topic:*``, which no pattern of some topics covers.
"""

from __future__ import annotations

from enum import Enum, StrEnum
from typing import Final, NamedTuple

from pyromq.errors import ConfigError, quoted
from pyromq.model.names import RETRY_PREFIX

ALL_NAMES: Final = "*"


class Action(StrEnum):
    """In RocketMQ's words. ``ALL`` in a policy means each of them."""

    ALL = "All"
    ANY = "Any"
    PUB = "Pub"
    SUB = "Sub"
    CREATE = "Create"
    UPDATE = "Update"
    DELETE = "Delete"
    GET = "Get"
    LIST = "List"


class ResourceType(StrEnum):
    CLUSTER = "Cluster"
    TOPIC = "Topic"
    GROUP = "Group"


class Match(Enum):
    """How a pattern compares names; what is more exact counts first."""

    LITERAL = 0
    PREFIXED = 1
    ANY = 2


class Resource(NamedTuple):
    """One topic, group or cluster, or with the name ``*`` all of them."""

    type: ResourceType
    name: str

    def __str__(self) -> str:
        return f"{self.type.value}:{self.name}"


class Need(NamedTuple):
    """What a request must be allowed: one of these actions (any will do) on a resource."""

    resource: Resource
    actions: tuple[Action, ...]

    def __str__(self) -> str:
        return f"{' or '.join(self.actions)} on {self.resource}"


class ResourcePattern(NamedTuple):
    """``type`` is None for the pattern of everything."""

    type: ResourceType | None
    match: Match
    name: str = ""  # for PREFIXED without its star

    @classmethod
    def parse(cls, text: str) -> ResourcePattern:
        """Parse a pattern such as ``Topic:orders*``. Raises ConfigError."""
        if text == ALL_NAMES:
            return cls(None, Match.ANY)
        kind, colon, name = text.partition(":")
        found = _TYPES.get(kind.lower())
        if found is None or not colon or not name.strip():
            example = "write Topic:name, Group:name or Cluster:name, where the name may end in *, or * for everything"
            raise ConfigError(f"{quoted(text)} is not a resource: {example}")
        if name == ALL_NAMES:
            return cls(found, Match.ANY)
        if name.endswith(ALL_NAMES):
            name = name[:-1]
            if ALL_NAMES in name:
                raise ConfigError(f"{quoted(text)} has more than one *: only the end of a name may be left open")
            return cls(found, Match.PREFIXED, name)
        if ALL_NAMES in name:
            raise ConfigError(f"{quoted(text)} has a * that is not its end: only the end of a name may be left open")
        if found is ResourceType.GROUP:
            name = name.removeprefix(RETRY_PREFIX)
        return cls(found, Match.LITERAL, name)

    def __str__(self) -> str:
        if self.type is None:
            return ALL_NAMES
        star = "" if self.match is Match.LITERAL else ALL_NAMES
        return f"{self.type.value}:{self.name}{star}"

    def matches(self, resource: Resource) -> bool:
        if self.type is None:
            return True
        if self.type is not resource.type:
            return False
        if self.match is Match.ANY:
            return True
        if resource.name == ALL_NAMES:
            return False
        if self.match is Match.PREFIXED:
            return resource.name.startswith(self.name)
        return resource.name == self.name

    @property
    def rank(self) -> tuple[bool, int, int]:
        """The smaller one is the more exact one, and decides."""
        return self.type is None, self.match.value, -len(self.name) if self.match is Match.PREFIXED else 0


_TYPES: Final = {each.value.lower(): each for each in ResourceType}
_ACTIONS: Final = {each.value.lower(): each for each in Action}


def parse_resource(text: str) -> Resource:
    """One resource, as ``Topic:orders``; ``Topic:*`` is all of them together. Raises ConfigError."""
    pattern = ResourcePattern.parse(text)
    if pattern.type is None or pattern.match is Match.PREFIXED:
        raise ConfigError(f"{quoted(text)} is not one resource: write Topic:name, Group:name or Cluster:name")
    return Resource(pattern.type, pattern.name or ALL_NAMES)


def parse_action(text: str) -> Action:
    """In any case. Raises ConfigError."""
    found = _ACTIONS.get(text.strip().lower())
    if found is None:
        known = ", ".join(each.value for each in Action if each is not Action.ANY)
        raise ConfigError(f"{quoted(text)} is not an action: there are {known}")
    return found


def topic(name: str) -> Resource:
    return Resource(ResourceType.TOPIC, name)


def group(name: str) -> Resource:
    """Also for the name of its retry topic."""
    return Resource(ResourceType.GROUP, name.removeprefix(RETRY_PREFIX))


def cluster(name: str) -> Resource:
    return Resource(ResourceType.CLUSTER, name)
