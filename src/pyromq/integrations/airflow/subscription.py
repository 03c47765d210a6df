"""What a trigger listens to: plain values, which Airflow writes to its database; secrets stay in its connections."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyromq.aio import Credentials, PullConsumer
from pyromq.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConnection:
    """Where name servers are, and how to speak to them."""

    nameservers: str = ""
    credentials: Credentials | None = None
    tls: bool | None = None
    namespace: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AirflowSubscription:
    """``topics`` is a topic, several topics, or topics with their tags. Raises ConfigError."""

    topics: str | Sequence[str] | Mapping[str, str]
    group: str
    nameservers: str = ""
    conn_id: str = ""
    sql: str = ""
    start: str = ""

    def __post_init__(self) -> None:
        if not self.group:
            raise ConfigError("group is the consumer group that remembers how far Airflow is: give it a name")
        if not self.topics:
            raise ConfigError("topics names what is listened to: a topic, or several")
        if self.nameservers and self.conn_id:
            raise ConfigError("give either nameservers or conn_id, an Airflow connection")
        if self.sql and not isinstance(self.topics, str):
            raise ConfigError("sql filters one topic: give topics as its name")
        if self.start not in ("", "earliest", "latest"):
            raise ConfigError(f"start is 'earliest' or 'latest', not {self.start!r}")

    def values(self) -> dict[str, Any]:
        """What makes the same subscription again, without what has its default."""
        topics = dict(self.topics) if isinstance(self.topics, Mapping) else self.topics
        topics = topics if isinstance(topics, str | dict) else list(topics)
        found = {"topics": topics, "group": self.group, "nameservers": self.nameservers, "conn_id": self.conn_id}
        return {name: value for name, value in {**found, "sql": self.sql, "start": self.start}.items() if value}

    def key(self) -> str:
        """Key that is equal for subscriptions that may share one consumer."""
        return json.dumps(self.values(), sort_keys=True)

    def consumer(self, place: ClusterConnection) -> PullConsumer:
        """Make the pull consumer, whose offsets are committed by hand. Raises what PullConsumer raises."""
        topics: Any = () if self.sql else self.topics
        consumer = PullConsumer(
            place.nameservers or (),
            group=self.group,
            topics=topics,
            start=self.start or None,  # type: ignore[arg-type]
            auto_commit=False,
            credentials=place.credentials,
            tls=place.tls,
            namespace=place.namespace,
        )
        if self.sql:
            consumer.subscribe(str(self.topics), self.sql, sql=True)
        return consumer


def place_of_connection(
    host: str | None, port: int | None, login: str | None, password: str | None, extra: Mapping[str, Any]
) -> ClusterConnection:
    """An Airflow connection as the address of name servers: several of them in its host, with ``;`` between.

    Raises ConfigError.
    """
    if not host:
        raise ConfigError("the Airflow connection has no host: the address of a name server")
    hosts = [each if ":" in each or port is None else f"{each}:{port}" for each in host.split(";") if each]
    if bool(login) != bool(password):
        raise ConfigError("the Airflow connection has a login without a password, or a password without a login")
    return ClusterConnection(
        nameservers=";".join(hosts),
        credentials=Credentials(login, password) if login and password else None,
        tls=extra.get("tls"),
        namespace=extra.get("namespace"),
    )
