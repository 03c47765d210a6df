"""Filters: the SQL92 expressions of groups by topic, from heartbeats, compiled.

A heartbeat says what a group wants; the table follows, and the file follows the table. Nothing here decides for longer
than a group is connected, except for messages in its retry topic: those are looked at with the expression of the topic
that they come from, which the group may have left. Data of such groups is kept for a day.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from pyromq.clock import Clock
from pyromq.filters import InvalidFilterError, SqlFilter, compile_filter
from pyromq.store.tables.filter_table import FilterData, FilterTable
from pyromq.wire.json.heartbeat import SQL_EXPRESSION, Subscription

logger = logging.getLogger(__name__)

LOOK_MS: Final = 10_000
KEEP_DEAD_MS: Final = 24 * 3_600_000
FILTERS_MAX: Final = 10_000
WORK_MAX: Final = 65_536  # characters that are compiled for one heartbeat, which others wait for; the next one goes on
_WORK_OF_EACH: Final = 400  # what even a short one costs
SubscriptionOf = Callable[[str, str], Subscription | None]  # by group and topic


class Filters:
    """Owns the table and what was compiled of it."""

    def __init__(self, table: FilterTable, clock: Clock) -> None:
        self._table = table
        self._clock = clock
        self._compiled: dict[tuple[str, str], SqlFilter] = {}  # by topic and group, as they are needed
        self._ticked_ms = clock.monotonic_ms()

    def __len__(self) -> int:
        return len(self._table)

    @property
    def table(self) -> FilterTable:
        """For the table keeper, which saves it."""
        return self._table

    # --- looking ---

    def data(self, topic: str, group: str) -> FilterData | None:
        return self._table.get(topic, group)

    def filter(self, topic: str, group: str) -> SqlFilter | None:
        """None when the group never had an expression for the topic that could be used."""
        found = self._compiled.get((topic, group))
        if found is None and (data := self._table.get(topic, group)) is not None:
            try:
                found = self._compiled[topic, group] = compile_filter(data.expression)
            except InvalidFilterError as error:  # written by another version, or by RocketMQ
                logger.warning("stored filter dropped: topic=%s group=%s reason=%s", topic, group, error)
                self._drop(data)
        return found

    # --- changing ---

    def register(self, group: str, subscriptions: Iterable[Subscription]) -> None:
        """What a group subscribes to now. An expression that cannot be used leaves no data: pulls are answered why."""
        work = 0
        for subscription in subscriptions:
            if subscription.expression_type == SQL_EXPRESSION and not self._is_known(group, subscription):
                work += len(subscription.sub_string) + _WORK_OF_EACH
                if work <= WORK_MAX:
                    self._register(group, subscription)

    def _is_known(self, group: str, subscription: Subscription) -> bool:
        """True for an expression that is there already; it has the subscription's version then."""
        known, version = self._table.get(subscription.topic, group), subscription.sub_version
        if known is None or known.expression != subscription.sub_string:
            return False
        if known.dead or known.client_version != version:
            self._table.put(msgspec.structs.replace(known, client_version=version, dead=False, dead_time=0))
        return True

    def _register(self, group: str, subscription: Subscription) -> None:
        topic, text, version = subscription.topic, subscription.sub_string, subscription.sub_version
        known = self._table.get(topic, group)
        if known is None and len(self._table) >= FILTERS_MAX:
            logger.warning("too many filters, this one was not registered: topic=%s group=%s", topic, group)
            return
        try:
            compiled = compile_filter(text)
        except InvalidFilterError:
            if known is not None:
                self._drop(known)
            return
        now_ms = self._clock.now_ms()
        self._table.put(
            FilterData(consumer_group=group, topic=topic, expression=text, born_time=now_ms, client_version=version)
        )
        self._compiled[topic, group] = compiled

    def _drop(self, data: FilterData) -> None:
        self._table.remove(data.topic, data.consumer_group)
        self._compiled.pop((data.topic, data.consumer_group), None)

    # --- from time to time ---

    def tick(self, subscription_of: SubscriptionOf) -> None:
        """Every ten seconds: see which groups left, forget those that left long ago."""
        now = self._clock.monotonic_ms()
        if now - self._ticked_ms >= LOOK_MS:
            self._ticked_ms = now
            self._bury(subscription_of)

    def _bury(self, subscription_of: SubscriptionOf) -> None:
        now_ms = self._clock.now_ms()
        for data in self._table:
            if data.dead and now_ms - data.dead_time > KEEP_DEAD_MS:
                self._drop(data)
            elif not data.dead:
                subscription = subscription_of(data.consumer_group, data.topic)
                if subscription is None or subscription.expression_type != SQL_EXPRESSION:
                    died_ms = max(now_ms, data.born_time)  # RocketMQ takes an earlier one for alive
                    self._table.put(msgspec.structs.replace(data, dead=True, dead_time=died_ms))
