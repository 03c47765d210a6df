"""Settings that members of a group really use, by their own word, beside those that brokers have for the group.

A member tells them in its running info (RocketMQ: ConsumerRunningInfo), Java's as well as PyroMQ's; what a client does
not tell is None. A broker's limit of retries counts only where the member leaves it open (-1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from pyromq.model.topic import GroupConfig
from pyromq.wording import shown_span

GROUP_DECIDES: Final = -1
_MINUTE_MS: Final = 60_000
_MODES: Final = {"CONSUME_ACTIVELY": "pull", "CONSUME_PASSIVELY": "push", "CONSUME_POP": "pop"}
_THE_GROUPS: Final = "the group's"
_NO_LIMIT: Final = "no limit"


class SettingsInUse(msgspec.Struct, frozen=True, kw_only=True):
    """What one member uses; None where it does not tell.

    ``retries_max`` -1 leaves the limit to the group, and an orderly member has none then. ``timed_out`` counts messages
    that it gave up on after ``consume_timeout_ms`` since it started.
    """

    retries_max: int | None = None
    consume_timeout_ms: int | None = None
    threads: int | None = None
    batch_max: int | None = None
    is_orderly: bool | None = None
    mode: str = ""
    model: str = ""
    started_ms: int | None = None
    timed_out: int | None = None


class UsedSetting(msgspec.Struct, frozen=True, kw_only=True):
    """One setting: the group's value as brokers have it (empty: they have none), and members by the value they use."""

    setting: str
    group: str
    members: dict[str, tuple[str, ...]]
    differs: bool
    """Members disagree, or use something else than the group's."""


def settings_of_member(properties: Mapping[str, object]) -> SettingsInUse:
    """Read the properties of a running info; a value that is none of its kind is taken as not told."""
    timeout_ms = _number(properties.get("pyromq.consumeTimeoutMs"))
    minutes = _number(properties.get("consumeTimeout"))
    if timeout_ms is None and minutes is not None:
        timeout_ms = minutes * _MINUTE_MS
    threads = _number(properties.get("PROP_THREADPOOL_CORE_SIZE"))
    orderly = {"true": True, "false": False}.get(str(properties.get("PROP_CONSUMEORDERLY", "")).lower())
    return SettingsInUse(
        retries_max=_number(properties.get("maxReconsumeTimes")),
        consume_timeout_ms=timeout_ms,
        threads=threads or None,
        batch_max=_number(properties.get("consumeMessageBatchMaxSize")),
        is_orderly=orderly,
        mode=_MODES.get(str(properties.get("PROP_CONSUME_TYPE", "")), ""),
        model=str(properties.get("messageModel", "")).lower(),
        started_ms=_number(properties.get("PROP_CONSUMER_START_TIMESTAMP")),
        timed_out=_number(properties.get("pyromq.timedOut")),
    )


def compare_settings(config: GroupConfig, members: Iterable[tuple[str, SettingsInUse]]) -> tuple[UsedSetting, ...]:
    """Return settings that the group or a member tells, each with the members (client ids) by the value they use."""
    told = list(members)
    found = []
    for setting, group, show in _ROWS:
        by_value: dict[str, list[str]] = {}
        for client_id, used in told:
            if (text := show(used)) is not None:
                by_value.setdefault(text, []).append(client_id)
        of_group = group(config)
        if not by_value and not of_group:
            continue
        differs = len(by_value) > 1 or (setting == "retries" and bool(set(by_value) - {_THE_GROUPS, of_group}))
        values = {text: tuple(ids) for text, ids in sorted(by_value.items(), key=lambda each: -len(each[1]))}
        found.append(UsedSetting(setting=setting, group=of_group, members=values, differs=differs))
    return tuple(found)


def _retries(used: SettingsInUse) -> str | None:
    if used.retries_max is None:
        return None
    if used.retries_max != GROUP_DECIDES:
        return str(used.retries_max)
    return _NO_LIMIT if used.is_orderly else _THE_GROUPS


def _timeout(used: SettingsInUse) -> str | None:
    return None if used.consume_timeout_ms is None else shown_span(used.consume_timeout_ms)


def _order(used: SettingsInUse) -> str | None:
    return None if used.is_orderly is None else ("queue by queue" if used.is_orderly else "concurrently")


def _whole(name: str) -> Callable[[SettingsInUse], str | None]:
    def show(used: SettingsInUse) -> str | None:
        value = getattr(used, name)
        return None if value is None else str(value)

    return show


def _order_of_group(config: GroupConfig) -> str:
    return "queue by queue" if config.consume_message_orderly else ""


_ROWS: Final[tuple[tuple[str, Callable[[GroupConfig], str], Callable[[SettingsInUse], str | None]], ...]] = (
    ("retries", lambda config: str(config.retry_max_times), _retries),
    ("time for a message", lambda config: "", _timeout),
    ("threads", lambda config: "", _whole("threads")),
    ("messages at once", lambda config: "", _whole("batch_max")),
    ("order", _order_of_group, _order),
    ("receives by", lambda config: "", lambda used: used.mode or None),
    ("delivery", lambda config: "", lambda used: used.model or None),
)


def _number(value: object) -> int | None:
    try:
        return int(str(value))
    except ValueError:
        return None
