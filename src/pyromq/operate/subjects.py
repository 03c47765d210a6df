"""Subjects: what a finding or a search result is about, by kind and name; faces know how to show each."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class SubjectKind(StrEnum):
    """What there is to look at in a cluster."""

    CLUSTER = "cluster"
    BROKER = "broker"
    SETTINGS = "settings"  # of a broker; with ``within`` one of them
    STORE = "store"
    REPLICATION = "replication"
    TOPIC = "topic"
    GROUP = "group"
    DEAD_LETTERS = "dead letters"  # of a group; with ``within`` one of them
    RETRIES = "retries"  # of a group
    TRANSACTIONS = "transactions"
    MESSAGE = "message"  # ``within`` a topic
    CLIENT = "client"  # ``within`` a group
    USER = "user"


class Subject(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing of a cluster: its kind, its name, and where it is found, for kinds that need that."""

    kind: SubjectKind
    name: str = ""
    within: str = ""


def broker_subject(kind: str, broker: str) -> Subject | None:
    """Return what a broker means when it names a page about itself (``settings:KEY``, ``store``); None for none."""
    if not kind:
        return None
    noun, _, within = kind.partition(":")
    return Subject(kind=SubjectKind(noun), name=broker, within=within)
