"""Settings of a broker that may be changed while it runs: what they mean, and which values make sense.

The broker has the last word; this table is what the console offers. A test compares it with the broker's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec

from pyromq.errors import ConfigError

_DAY_MS: Final = 86_400_000
_TEXT_MAX: Final = 10_000


class Kind(StrEnum):
    SWITCH = "switch"
    NUMBER = "number"
    HOURS = "hours"
    TEXT = "text"


class HotSetting(msgspec.Struct, frozen=True, kw_only=True):
    """``key`` is RocketMQ's. ``unit`` is what a number counts."""

    key: str
    meaning: str
    kind: Kind = Kind.SWITCH
    least: int = 0
    most: int = 0
    unit: str = ""

    @property
    def allowed(self) -> str:
        """Allowed values in words."""
        match self.kind:
            case Kind.SWITCH:
                return "true or false"
            case Kind.NUMBER:
                return f"{self.least} to {self.most}{f' {self.unit}' if self.unit else ''}"
            case Kind.HOURS:
                return "hours of the day, such as 04;16"
            case Kind.TEXT:
                return "text"


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A setting that would have another value."""

    key: str
    before: str
    after: str


def _number(key: str, meaning: str, least: int, most: int, unit: str = "") -> HotSetting:
    return HotSetting(key=key, meaning=meaning, kind=Kind.NUMBER, least=least, most=most, unit=unit)


def _switch(key: str, meaning: str) -> HotSetting:
    return HotSetting(key=key, meaning=meaning)


_ALL: Final = (
    _switch("autoCreateSubscriptionGroup", "Groups come into being when a consumer asks for them"),
    _switch("autoCreateTopicEnable", "Topics come into being when somebody sends to them"),
    _switch("brokerFastFailureEnable", "Sends that waited too long are refused instead of waiting on"),
    _number("brokerPermission", "What clients may do: 2 write, 4 read, 6 both", 0, 7),
    HotSetting(key="deleteWhen", meaning="When expired files are deleted", kind=Kind.HOURS),
    _number("diskMaxUsedSpaceRatio", "From here on expired files go at any hour", 10, 85, "% of the disk"),
    _switch("enablePropertyFilter", "Consumers may filter by SQL over properties"),
    _number("fileReservedTime", "How long messages are kept", 1, 24 * 365, "hours"),
    _switch("filterSupportRetry", "Retried messages are filtered again"),
    _number(
        "flushCommitLogThoroughInterval", "With asynchronous flush: the disk has everything after", 10, _DAY_MS, "ms"
    ),
    _number("flushConsumerOffsetInterval", "How often committed offsets are saved", 1, _DAY_MS, "ms"),
    _number("flushDelayOffsetInterval", "How often the progress of delay levels is saved", 1, _DAY_MS, "ms"),
    _number("flushIntervalCommitLog", "With asynchronous flush: how often the log is flushed", 1, _DAY_MS, "ms"),
    _switch("longPollingEnable", "Pulls wait at the broker for the next message"),
    HotSetting(key="quotas", meaning="Quotas, one after the other with ; between them", kind=Kind.TEXT),
    _switch("recallMessageEnable", "Delayed messages may be cancelled"),
    _number("registerNameServerPeriod", "How often the broker registers with name servers", 10_000, 60_000, "ms"),
    _switch("rejectTransactionMessage", "Transactional messages are refused"),
    _number("shortPollingTimeMills", "Without long polling: how long a pull waits", 1, 60_000, "ms"),
    _number("startAcceptSendRequestTimeStamp", "Messages are refused before this time", 0, 10**15 - 1, "ms since 1970"),
    _switch("storeReplyMessageEnable", "Replies of request-reply are stored"),
    _number("transactionCheckInterval", "How often undecided producers are asked", 1_000, _DAY_MS, "ms"),
    _number("transactionCheckMax", "How often at most, before a prepared message is put away", 1, 250, "times"),
    _number("transactionTimeOut", "No earlier than so long after the message", 0, _DAY_MS, "ms"),
    _switch("useServerSideResetOffset", "Resets happen at the broker, also for members that are away"),
    _number("waitTimeMillsInSendQueue", "How long a send may wait before it is refused", 1, 60_000, "ms"),
)
HOT: Final[dict[str, HotSetting]] = {each.key: each for each in _ALL}


def checked(key: str, text: str) -> str:
    """The value as the broker takes it. Raises ConfigError with what is allowed."""
    setting, value = HOT.get(key), text.strip()
    if setting is None:
        raise ConfigError(f"{key[:80]} is not one of the settings that can be changed while a broker runs")
    if not _fits(setting, value):
        raise ConfigError(f"{key} cannot be {value[:80]!r}: allowed is {setting.allowed}")
    return value.lower() if setting.kind is Kind.SWITCH else value


def changes_of(now: Mapping[str, str], wanted: Mapping[str, str]) -> list[Change]:
    """What would be another value than now. Raises ConfigError for a value that makes no sense, or nothing to do."""
    changes = [
        Change(key=key, before=now.get(key, ""), after=value)
        for key, text in wanted.items()
        if (value := checked(key, text)) != now.get(key, "")
    ]
    if not changes:
        raise ConfigError("nothing would change: these are the values that the broker has")
    return changes


def _fits(setting: HotSetting, value: str) -> bool:
    match setting.kind:
        case Kind.SWITCH:
            return value.lower() in ("true", "false")
        case Kind.NUMBER:
            return (
                value.isascii() and value.isdigit() and len(value) < 20 and setting.least <= int(value) <= setting.most
            )
        case Kind.HOURS:
            words = [word.strip() for word in value.split(";")]
            return all(word.isascii() and word.isdigit() and len(word) < 3 and int(word) < 24 for word in words)
        case Kind.TEXT:
            return len(value) <= _TEXT_MAX and "\n" not in value and "\r" not in value
