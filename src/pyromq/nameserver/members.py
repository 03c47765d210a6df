"""What the route table knows of single brokers, and what they send it; frozen values."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from pyromq.model.topic import DataVersion, TopicConfig


class BrokerEndpoint(NamedTuple):
    """One broker process. Addresses count per cluster: two clusters in separate networks may use the same ones."""

    cluster: str
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerProcess:
    """A process in its role: the master (id 0) or a replica of the broker of that name."""

    cluster: str
    broker: str
    broker_id: int
    address: str

    @property
    def endpoint(self) -> BrokerEndpoint:
        return BrokerEndpoint(self.cluster, self.address)


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveMember:
    """A member that is in the table, with what its last registration said."""

    member: BrokerProcess
    connection: Hashable
    seen_ms: int  # monotonic
    silence_ms_max: int
    data_version: DataVersion
    ha_address: str
    filter_servers: tuple[str, ...] = ()
    left_out: frozenset[str] = frozenset()  # topics of its last registration that break a limit
    rank: int = 0  # the state version that counts against others with the same id: a jump is bounded


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """What a member says about itself. ``acting_master`` is None for brokers before 5.0, which know nothing of it."""

    member: BrokerProcess
    ha_address: str = ""
    data_version: DataVersion = field(default_factory=DataVersion)
    topics: Mapping[str, TopicConfig] = field(default_factory=dict)
    acting_master: bool | None = None
    silence_ms_max: int | None = None
    zone: str | None = None
    filter_servers: tuple[str, ...] = ()
    unreadable: Mapping[str, str] = field(default_factory=dict)  # topics that could not be decoded, with the reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """The member is in the table; a replica learns where its master is, if there is one."""

    is_new: bool  # no process had this broker name and id before
    displaced: str | None = None  # the other address that had them
    master_address: str | None = None
    master_ha_address: str | None = None
    left_out: Mapping[str, str] = field(default_factory=dict)  # topics that are not in the table, with the reason
    left_out_before: frozenset[str] = frozenset()  # by the registration before


@dataclass(frozen=True, slots=True, kw_only=True)
class Outranked:
    """Another address holds the same id with a higher state version: the registration counts for nothing."""

    holder: str
    rank: int  # the state version of the holder


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionCheck:
    """Whether a broker's topics differ from what the table has, and the version that it has."""

    changed: bool
    known: DataVersion | None
