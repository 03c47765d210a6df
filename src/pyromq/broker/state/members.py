"""Connected clients: the members of consumer groups with their subscriptions, and the producers of each group.

A client is known by its id and reached through a connection. It leaves by saying so, by closing its connection, or by
silence. Whatever changes the members of a group, or what they subscribe to, makes the others rebalance: the methods
here only decide, and return the groups to be notified.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from pyromq.broker.state.client_ids import PRODUCERS, ClientIds
from pyromq.clock import Clock
from pyromq.wire.json.heartbeat import (
    ConsumeFromWhere,
    ConsumerData,
    ConsumeType,
    Heartbeat,
    MessageModel,
    Subscription,
)
from pyromq.wire.json.subscribed import Wish, difference, wish_of

logger = logging.getLogger(__name__)

_NAMED_MAX: Final = 10  # clients in a log line
_ODD_GROUPS_MAX: Final = 16  # groups in the response to one heartbeat
DISAGREEMENT_INTERVAL_MS: Final = 10_000  # a group that disagrees is named so often at most

C = TypeVar("C")  # the connection, of which nothing but identity is needed here


@dataclass(slots=True)
class ConnectedMember(Generic[C]):
    """One client of one group."""

    client_id: str
    connection: C
    language: str
    version: int
    seen_ms: int
    subscribed: Wish | None = None  # None: it has not said so yet
    fingerprint: int = 0  # of the last heartbeat with subscriptions


@dataclass(slots=True)
class ConsumerGroup(Generic[C]):
    """The live side of a consumer group."""

    name: str
    consume_type: ConsumeType = ConsumeType.CONSUME_PASSIVELY
    model: MessageModel = MessageModel.CLUSTERING
    from_where: ConsumeFromWhere = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
    members: dict[C, ConnectedMember[C]] = field(default_factory=dict)  # changed by ``put`` and ``drop`` alone
    subscriptions: dict[str, Subscription] = field(default_factory=dict)
    _wishes: Counter[Wish] = field(default_factory=Counter)  # how many members want what
    _client_ids: list[str] | None = None  # None: to be sorted anew
    client_ids_text: bytes | None = None  # as the handler of 38 has encoded them; None: to be encoded anew

    @property
    def client_ids(self) -> list[str]:
        if self._client_ids is None:  # every member asks after every change
            self._client_ids = sorted({member.client_id for member in self.members.values()})
        return self._client_ids

    def put(self, member: ConnectedMember[C]) -> None:
        known = self.members.get(member.connection)
        if known is None or known.client_id != member.client_id:
            self._client_ids = self.client_ids_text = None
        self._forget_wish(known)
        self.members[member.connection] = member
        if member.subscribed is not None:
            self._wishes[member.subscribed] += 1

    def drop(self, connection: C) -> None:
        self._forget_wish(self.members.pop(connection, None))
        self._client_ids = self.client_ids_text = None

    def _forget_wish(self, member: ConnectedMember[C] | None) -> None:
        if member is not None and member.subscribed is not None:
            self._wishes[member.subscribed] -= 1
            if not self._wishes[member.subscribed]:
                del self._wishes[member.subscribed]

    @property
    def agrees(self) -> bool:
        """All members that have said so subscribe to the same."""
        return len(self._wishes) <= 1

    @property
    def disagreeing(self) -> list[str]:
        """Clients that subscribe to something else than most of their group; empty when all agree."""
        return sorted(client_id for client_id, _, _ in self.differences())

    def differences(self) -> list[tuple[str, Wish, Wish]]:
        """Each of those clients, what it subscribes to, and what most of its group do."""
        if self.agrees:
            return []
        spoken = [
            (member.client_id, member.subscribed) for member in self.members.values() if member.subscribed is not None
        ]
        most = max(self._wishes.values())
        usual = next(wish for _, wish in spoken if self._wishes[wish] == most)  # of equals that of the oldest member
        return [(client_id, wish, usual) for client_id, wish in spoken if wish != usual]

    def odd_wish(self, connection: C, wanted: Wish) -> Wish | None:
        """What the other members subscribe to, if it is something else; None when they agree, or there are none."""
        others = Counter(self._wishes)
        known = self.members.get(connection)
        if known is not None and known.subscribed is not None:
            others[known.subscribed] -= 1
        if others[wanted] > 0:
            return None
        usual, count = max(others.items(), key=lambda each: each[1], default=(wanted, 0))
        return usual if count > 0 else None


class Members(Generic[C]):
    """All groups of a broker."""

    def __init__(self, clock: Clock, expiry_ms: int = 120_000) -> None:
        self._clock = clock
        self._expiry_ms = expiry_ms
        self._consumers: dict[str, ConsumerGroup[C]] = {}  # by group
        self._producers: dict[str, dict[C, ConnectedMember[C]]] = {}  # by group and connection
        self._spoken: defaultdict[C, set[tuple[bool, str]]] = defaultdict(set)  # groups by connection, True: consumers
        self._ids: ClientIds[C] = ClientIds(clock)
        self._warned_ms: dict[str, int] = {}  # by group: when its disagreement was logged
        self.subscriptions_version = 0  # moves when what a group subscribes to, or its model, may have changed

    # --- looking ---

    def consumer_group(self, name: str) -> ConsumerGroup[C] | None:
        return self._consumers.get(name)

    def consumer_groups(self) -> Iterable[ConsumerGroup[C]]:
        return self._consumers.values()

    @property
    def producer_group_count(self) -> int:
        return len(self._producers)

    def producers(self, group: str) -> list[ConnectedMember[C]]:
        return list(self._producers.get(group, {}).values())

    def producer_groups(self) -> dict[str, list[ConnectedMember[C]]]:
        return {group: list(members.values()) for group, members in self._producers.items()}

    def producer_by_client(self, client_id: str) -> ConnectedMember[C] | None:
        """The producer that has that client id, whatever its group: replies go to it."""
        holder = self._ids.holder((PRODUCERS, client_id))
        if holder is None:
            return None
        groups = (self._producers.get(name, {}) for consumes, name in self._spoken.get(holder, ()) if not consumes)
        found = (members.get(holder) for members in groups)
        return next((member for member in found if member is not None and member.client_id == client_id), None)

    def consumer_by_client(self, group: str, client_id: str) -> ConnectedMember[C] | None:
        """The member of a group that has that client id."""
        live, holder = self._consumers.get(group), self._ids.holder((group, client_id))
        return None if live is None or holder is None else live.members.get(holder)

    def is_foreign(self, group: str, client_id: str, user: str | None) -> bool:
        """Whether the client id is another user's, in a consumer group or among ``PRODUCERS``."""
        return self._ids.is_foreign((group, client_id), user)

    def seen_at_ms(self, member: ConnectedMember[C]) -> int:
        """When a member was heard from last, by the wall clock."""
        return self._clock.now_ms() - (self._clock.monotonic_ms() - member.seen_ms)

    def subscription(self, group: str, topic: str) -> Subscription | None:
        live = self._consumers.get(group)
        return live.subscriptions.get(topic) if live else None

    def knows(self, connection: C, heartbeat: Heartbeat) -> bool:
        """False when subscriptions have changed, or are left out and were never heard on this connection.

        It matters to clients that send fingerprints; a heartbeat without one counts as a change, as with RocketMQ.
        """
        if not heartbeat.heartbeat_fingerprint:
            return False
        for consumer in heartbeat.consumer_data_set:
            group = self._consumers.get(consumer.group_name)
            member = group.members.get(connection) if group else None
            if member is None or member.subscribed is None:
                if heartbeat.without_sub:
                    return False
            elif member.fingerprint != heartbeat.heartbeat_fingerprint:
                return False
        return True

    def odd_wish(self, connection: C, data: ConsumerData) -> str:
        """How a member would differ from the rest of its group, in words; empty when it would not."""
        group, wanted = self._consumers.get(data.group_name), wish_of(data.subscription_data_set)
        usual = group.odd_wish(connection, wanted) if group else None
        return "" if usual is None else "it subscribes to {}, the others to {}".format(*difference(wanted, usual))

    def odd_groups(self, connection: C, groups: Iterable[str]) -> dict[str, str]:
        """Groups in which the client of a connection subscribes to something else than other members, and what."""
        found: dict[str, str] = {}
        for name in groups:
            group = self._consumers.get(name)
            if group is None or group.agrees or len(found) >= _ODD_GROUPS_MAX:
                continue
            member = group.members.get(connection)
            wanted = member.subscribed if member is not None else None
            if wanted is not None and (usual := group.odd_wish(connection, wanted)) is not None:
                found[name] = "this client subscribes to {}, others to {}".format(*difference(wanted, usual))
        return found

    # --- changing ---

    def heard_from(
        self, connection: C, heartbeat: Heartbeat, language: str, version: int, user: str | None = None
    ) -> set[str]:
        """Take in a heartbeat; returns the consumer groups whose members must rebalance."""
        now = self._clock.monotonic_ms()
        if heartbeat.producer_data_set:
            self._ids.claim((PRODUCERS, heartbeat.client_id), connection, user)
        for producer in heartbeat.producer_data_set:
            member = ConnectedMember(heartbeat.client_id, connection, language, version, now)
            self._producers.setdefault(producer.group_name, {})[connection] = member
            self._spoken[connection].add((False, producer.group_name))
        changed = set()
        for consumer in heartbeat.consumer_data_set:
            member = ConnectedMember(heartbeat.client_id, connection, language, version, now)
            keep, fingerprint = heartbeat.without_sub, heartbeat.heartbeat_fingerprint
            self._claim(consumer.group_name, member, user)
            if self._update_group(consumer, member, keep_subscriptions=keep, fingerprint=fingerprint):
                changed.add(consumer.group_name)
        return changed

    def _claim(self, group: str, member: ConnectedMember[C], user: str | None) -> None:
        live = self._consumers.get(group)
        known = live.members.get(member.connection) if live else None
        if known is not None and known.client_id != member.client_id:
            self._ids.release((group, known.client_id), member.connection)
        self._ids.claim((group, member.client_id), member.connection, user)

    def not_answered(self, member: ConnectedMember[C]) -> None:
        """A producer did not answer what was pushed to it: another connection with its client id comes first."""
        self._ids.failed((PRODUCERS, member.client_id), member.connection)

    def _update_group(
        self, data: ConsumerData, member: ConnectedMember[C], *, keep_subscriptions: bool, fingerprint: int
    ) -> bool:
        group = self._consumers.get(data.group_name)
        if group is None:
            group = self._consumers[data.group_name] = ConsumerGroup(data.group_name)
        self._spoken[member.connection].add((True, data.group_name))
        known = group.members.get(member.connection)
        joined = known is None or known.client_id != member.client_id
        if group.model is not data.message_model:
            self.subscriptions_version += 1
        group.consume_type, group.model, group.from_where = (
            data.consume_type,
            data.message_model,
            data.consume_from_where,
        )
        if keep_subscriptions:
            if known is not None and not joined:
                member.subscribed, member.fingerprint = known.subscribed, known.fingerprint
            group.put(member)
            return joined
        member.fingerprint = fingerprint
        member.subscribed = wish_of(data.subscription_data_set)
        wishes_else = known is None or known.subscribed != member.subscribed
        group.put(member)
        before = dict(group.subscriptions)
        resubscribed = _merge_subscriptions(group.subscriptions, data.subscription_data_set)
        if group.subscriptions != before:
            self.subscriptions_version += 1
        if (joined or wishes_else) and not group.agrees:
            self._warn(group)
        return joined or resubscribed

    def _warn(self, group: ConsumerGroup[C]) -> None:
        now = self._clock.monotonic_ms()
        if now - self._warned_ms.get(group.name, -DISAGREEMENT_INTERVAL_MS) >= DISAGREEMENT_INTERVAL_MS:
            self._warned_ms[group.name] = now
            odd = sorted(group.differences(), key=lambda each: each[0])
            clients = ",".join(client_id for client_id, _, _ in odd[:_NAMED_MAX]) + (",…" if odd[_NAMED_MAX:] else "")
            first, others = difference(*odd[0][1:])
            logger.warning(
                "members of a group have different subscriptions: group=%s members=%d clients=%s: "
                "%s subscribes to %s, most others to %s",
                *(group.name, len(odd), clients, odd[0][0], first, others),
            )

    def leave(self, connection: C, consumer_group: str) -> set[str]:
        """A member is not one any more; returns the consumer groups that must rebalance."""
        group = self._consumers.get(consumer_group)
        return self._remove(group, [connection]) if group is not None and connection in group.members else set()

    def unregister(
        self, client_id: str, connection: C, producer_group: str | None, consumer_group: str | None
    ) -> set[str]:
        """A client leaves groups; returns the consumer groups that must rebalance."""
        if producer_group and producer_group in self._producers:
            self._forget_producer(producer_group, connection)
        if consumer_group and (group := self._consumers.get(consumer_group)):
            gone = group.members.get(connection)
            if gone is not None and gone.client_id == client_id:
                return self._remove(group, [connection])
        return set()

    def disconnected(self, connection: C) -> set[str]:
        """A connection is gone, and with it everything that was said on it."""
        changed: set[str] = set()
        self._ids.disconnected(connection)
        for consumes, name in self._spoken.pop(connection, ()):
            if not consumes:
                if name in self._producers:
                    self._forget_producer(name, connection)
            elif (group := self._consumers.get(name)) is not None and connection in group.members:
                changed |= self._remove(group, [connection])
        return changed

    def drop_silent(self) -> tuple[list[C], set[str]]:
        """Connections without a heartbeat for too long, and consumer groups that must rebalance.

        Close the connections, and ``disconnected`` does the rest. A connection on which another group is still
        heard of stays: then only the group that is not mentioned any more has lost a member.
        """
        limit = self._clock.monotonic_ms() - self._expiry_ms
        tables = [*self._producers.values(), *(group.members for group in self._consumers.values())]
        speaking = {each for table in tables for each, member in table.items() if member.seen_ms >= limit}
        silent = {each: None for table in tables for each in table if each not in speaking}
        changed: set[str] = set()
        for name, members in list(self._producers.items()):
            for connection in [each for each, member in members.items() if member.seen_ms < limit and each in speaking]:
                self._forget_producer(name, connection)
        for group in list(self._consumers.values()):
            gone = [each for each, member in group.members.items() if member.seen_ms < limit and each in speaking]
            changed |= self._remove(group, gone) if gone else set()
        return list(silent), changed

    def _forget_producer(self, group: str, connection: C) -> None:
        self._producers[group].pop(connection, None)
        if not self._producers[group]:
            del self._producers[group]

    def _remove(self, group: ConsumerGroup[C], connections: list[C]) -> set[str]:
        for connection in connections:
            self._ids.release((group.name, group.members[connection].client_id), connection)
            group.drop(connection)
        if not group.members:
            del self._consumers[group.name]
            self.subscriptions_version += 1
            self._warned_ms.pop(group.name, None)
            return set()
        return {group.name}


def _merge_subscriptions(known: dict[str, Subscription], wanted: Iterable[Subscription]) -> bool:
    """Newer versions replace, topics no longer listed go; True when the set of topics changed."""
    wanted = tuple(wanted)
    topics = {subscription.topic for subscription in wanted}
    gone = known.keys() - topics
    new = topics - known.keys()
    for topic in gone:
        del known[topic]
    for subscription in wanted:
        current = known.get(subscription.topic)
        if current is None or subscription.sub_version > current.sub_version:
            known[subscription.topic] = subscription
    return bool(gone or new)
