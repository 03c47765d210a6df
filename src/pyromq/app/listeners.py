"""Listeners of an app: what ``@app.consume`` was given, and how those of one group become one consumer.

    @app.consume("orders", group="billing", tags="new")       ┐ one PushConsumer of group billing, which subscribes to
    @app.consume("orders", group="billing", tags="cancelled") ├ orders (new || cancelled) and refunds, and calls the
    @app.consume("refunds", group="billing")                  ┘ listener that a message is for

All members of a group must subscribe to the same: brokers give a message to any of them. So one app is one member of a
group, with the subscriptions of all its listeners together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict

from pyromq.app.signatures import name_of
from pyromq.client.consumer.base.settings import PushConsumerSettings, Start
from pyromq.client.consumer.rules.subscription import parse_tags
from pyromq.client.core.options import checked_group
from pyromq.client.core.received_message import ReceivedMessage
from pyromq.errors import ConfigError, InvalidExpressionError
from pyromq.model.delay_levels import level_of, parse_ladder
from pyromq.model.names import validate_topic
from pyromq.model.times import Span, span_ms
from pyromq.typed.listeners import is_coroutine_function

if TYPE_CHECKING:
    from pyromq.client.consumer.base.rebalance_listener import QueueListener
    from pyromq.idempotent.keys import Key

Call = Callable[[Any], Any]

_ALL: Final = "*"


class ConsumeOptions(TypedDict, total=False):
    """How a listener consumes; what is left out is as ``PushConsumerSettings`` says.

    ``mode="pop"`` shares messages instead of queues between the processes of the app, ``invisible_ms`` is how long one
    of them is hidden from the others, renewed while a listener has it; ``orderly`` keeps the order of each queue;
    ``broadcast`` gives every member every message; ``batch`` is how many messages the listener gets at once, as a list;
    ``retries`` how often a message may fail before it is a dead letter;
    ``delays`` how long it waits for each retry (``"1s 10s 1m"``, or timedeltas or seconds, each of them one of
    RocketMQ's delay levels): as many retries as delays, unless ``retries`` says more, which wait as long as the last;
    ``once`` a database (path, URL, engine) or Marks: what was consumed before is not consumed again, by
    ``once_key(message)`` or else its keys; ``threads`` for functions, ``concurrency`` for coroutines: how many run at
    once; ``start`` where a new group begins; ``timeout_ms`` after which a listener has failed; ``trace``,
    ``on_assigned`` and ``on_revoked`` as ``PushConsumer`` has them; ``settings`` for the rest.
    """

    mode: Literal["pull", "pop"]
    invisible_ms: int
    orderly: bool
    broadcast: bool
    batch: int
    retries: int
    delays: str | Sequence[Span]
    once: Any
    once_key: Key
    threads: int
    concurrency: int
    start: Start
    timeout_ms: int
    trace: bool | str
    on_assigned: QueueListener
    on_revoked: QueueListener
    settings: PushConsumerSettings


_FIELDS: Final = {  # of PushConsumerSettings, by option
    "mode": "mode",
    "invisible_ms": "invisible_ms",
    "orderly": "orderly",
    "broadcast": "broadcast",
    "batch": "batch_max",
    "retries": "attempts_max",
    "threads": "threads",
    "concurrency": "concurrency_max",
    "start": "start",
    "timeout_ms": "consume_timeout_ms",
}


_CONSUMER_OPTIONS: Final = ("trace", "on_assigned", "on_revoked")


@dataclass(frozen=True, slots=True)
class AppListener:
    """One decorated function; ``replies`` if what it returns is sent to who asked."""

    function: Callable[..., Any]
    topics: tuple[str, ...]
    group: str
    tags: str = _ALL
    sql: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    replies: bool = False

    @property
    def name(self) -> str:
        return f"listener {name_of(self.function)}"

    @property
    def is_coroutine(self) -> bool:
        return is_coroutine_function(self.function)

    @property
    def is_batch(self) -> bool:
        return "batch" in self.options

    @property
    def settings(self) -> PushConsumerSettings:
        """Settings of the push consumer that runs this listener. Raises ConfigError for options that contradict each
        other.
        """
        given = self.options.get("settings") or PushConsumerSettings()
        chosen = {name: self.options[key] for key, name in _FIELDS.items() if key in self.options}
        if "delays" in self.options:
            levels = retry_levels(self.options["delays"])
            chosen = {"attempts_max": len(levels), **chosen, "retry_levels": levels}
        return replace(given, **chosen)


def retry_levels(delays: str | Sequence[Span]) -> dict[int, int]:
    """The level of each retry, by how often a message has failed before it. Raises ConfigError."""
    waits_ms = parse_ladder(delays) if isinstance(delays, str) else [span_ms("delays", each) for each in delays]
    if not waits_ms:
        raise ConfigError('delays is empty: write delays="1s 10s 1m", or retries=0 for no retries')
    try:
        return {failures: level_of(wait_ms) for failures, wait_ms in enumerate(waits_ms, 1)}
    except ConfigError as error:
        text = "pyromq group create --delays gives a group waits of any length"
        raise ConfigError(f"delays={delays!r}: {error}; {text}") from error


def checked_listener(listener: AppListener) -> AppListener:
    """What can be checked at the decorator. Raises ConfigError, InvalidNameError, InvalidExpressionError, TypeError."""
    known = ConsumeOptions.__optional_keys__
    for name in listener.options:
        if name not in known:
            names = ("topic", "group", "tags", "sql", *sorted(known))
            raise TypeError(f"@app.consume has no option {name!r}; there are {', '.join(names)}")
    if not listener.topics:
        raise ConfigError(f"{listener.name} names no topic")
    for topic in listener.topics:
        validate_topic(topic)
    checked_group(listener.group)
    parse_tags(listener.tags)
    if listener.sql and listener.tags != _ALL:
        raise InvalidExpressionError(f"{listener.name} has tags and sql: a subscription has one of them")
    settings = listener.options.get("settings")
    if settings is not None and not isinstance(settings, PushConsumerSettings):
        raise ConfigError(f"{listener.name}: settings must be PushConsumerSettings, not {type(settings).__name__}")
    if "once_key" in listener.options and "once" not in listener.options:
        raise ConfigError(f"{listener.name}: once_key says what once=… counts as the same; say once=, too")
    if "delays" in listener.options and (listener.settings.orderly or listener.settings.broadcast):
        text = "an orderly listener tries again on the spot, a broadcast is not tried again"
        raise ConfigError(f"{listener.name}: delays are for retries that wait at the broker; {text}")
    if listener.replies and (listener.is_batch or listener.settings.broadcast):
        raise ConfigError(f"{listener.name} replies to each request: without batch and broadcast")
    assert listener.settings
    return listener


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """The listeners of one group: settings, subscriptions, and who gets which message."""

    group: str
    listeners: tuple[AppListener, ...]

    @property
    def settings(self) -> PushConsumerSettings:
        return self.listeners[0].settings

    @property
    def consumer_options(self) -> dict[str, Any]:
        """Those of PushConsumer that are no settings."""
        options = self.listeners[0].options
        return {name: options[name] for name in _CONSUMER_OPTIONS if name in options}

    @property
    def is_coroutine(self) -> bool:
        return self.listeners[0].is_coroutine

    @property
    def is_batch(self) -> bool:
        return self.listeners[0].is_batch

    def subscriptions(self) -> list[tuple[str, str, bool]]:
        """Topic, expression, and whether that is SQL. Several listeners of a topic have different tags."""
        found: dict[str, tuple[str, bool]] = {}
        for topic, listener in self._pairs():
            if topic in found:
                found[topic] = (f"{found[topic][0]} || {listener.tags}", False)
            else:
                found[topic] = (listener.sql, True) if listener.sql else (listener.tags, False)
        return [(topic, text, is_sql) for topic, (text, is_sql) in found.items()]

    def _pairs(self) -> list[tuple[str, AppListener]]:
        return [(topic, listener) for listener in self.listeners for topic in listener.topics]

    def check(self) -> None:
        """Check that the listeners of a group can be one consumer. Raises ConfigError when they cannot."""
        first, others = self.listeners[0], self.listeners[1:]
        for other in others:
            who = f"{first.name} and {other.name} are both of group {self.group}"
            if other.is_coroutine != first.is_coroutine:
                raise ConfigError(f"{who}: make both functions, or both coroutines, or use two groups")
            if other.is_batch or first.is_batch:
                raise ConfigError(f"{who}: a listener of batches has a group of its own")
            if difference := _difference(first, other):
                raise ConfigError(f"{who}, but {difference}: a group consumes in one way; use two groups")
        taken: dict[str, list[tuple[frozenset[str], AppListener]]] = {}
        for topic, listener in self._pairs():
            tags = frozenset() if listener.sql else parse_tags(listener.tags)
            for others_tags, other in taken.get(topic, []):
                if other is listener:
                    raise ConfigError(f"{listener.name} names topic {topic} twice")
                if not tags or not others_tags or tags & others_tags:
                    text = f"{other.name} and {listener.name} would both get messages of topic {topic}"
                    raise ConfigError(f"{text} in group {self.group}: give them different tags, or different groups")
            taken.setdefault(topic, []).append((tags, listener))

    def routed(self, calls: Sequence[Call]) -> Call:
        """One call for all listeners, whose own are given in their order; that of a single listener is its own."""
        if len(calls) == 1:
            return calls[0]
        routes: dict[str, Call | dict[str, Call]] = {}
        for listener, call in zip(self.listeners, calls, strict=True):
            for topic in listener.topics:
                if tags := (frozenset[str]() if listener.sql else parse_tags(listener.tags)):
                    by_tag = routes.setdefault(topic, {})
                    assert isinstance(by_tag, dict)
                    by_tag.update(dict.fromkeys(tags, call))
                else:
                    routes[topic] = call
        return _route(self.group, routes, is_coroutine=self.is_coroutine)


def plans_of(listeners: Sequence[AppListener]) -> list[GroupPlan]:
    """One for each group. Raises ConfigError."""
    groups: dict[str, list[AppListener]] = {}
    for listener in listeners:
        groups.setdefault(listener.group, []).append(listener)
    plans = [GroupPlan(group, tuple(found)) for group, found in groups.items()]
    for plan in plans:
        plan.check()
    return plans


def _difference(one: AppListener, other: AppListener) -> str:
    ours, theirs = one.settings, other.settings
    names = {name: key for key, name in _FIELDS.items()}
    for each in fields(ours):
        if each.init and (mine := getattr(ours, each.name)) != (its := getattr(theirs, each.name)):
            return f"{names.get(each.name, each.name)} is {mine!r} for one and {its!r} for the other"
    for name in _CONSUMER_OPTIONS:
        if one.options.get(name) != other.options.get(name):
            return f"they say different things about {name}"
    return ""


def _route(group: str, routes: Mapping[str, Call | Mapping[str, Call]], *, is_coroutine: bool) -> Call:
    def find(message: ReceivedMessage) -> Call:
        found = routes.get(message.topic)
        if isinstance(found, Mapping):
            found = found.get(message.tags)
        if found is None:  # it comes again from an earlier version of the app, say; a later one may take it
            tags = f" with tag {message.tags}" if message.tags else ""
            raise LookupError(f"group {group} has no listener for topic {message.topic}{tags}")
        return found

    if is_coroutine:

        async def call_soon(message: ReceivedMessage) -> Any:
            return await find(message)(message)

        return call_soon
    return lambda message: find(message)(message)
