"""Quotas: how much one user, address, topic or group may take of a broker.

    user:billing messages=1000 bytes=10m      what this user sends in a second, and what it reads in a second
    user:* topics=50 groups=50                each user by itself: how many it may create
    address:10.0.0.0/8 connections=100        a network as a whole; ``address:*``: each address by itself
    topic:orders bytes=50m                    what all producers together send to it
    group:reports messages=500                what all members together read

For each measure the most exact quota counts that gives it: a name before ``*``, a smaller network before a larger one.

Rates are kept by buckets that fill evenly and hold one second's worth. A request passes while its buckets are not empty
and takes from them what it turns out to cost, so one that is larger than a second's worth passes, too, and those that
follow wait until the debt is paid: over time nobody gets more than its rate.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Final, NamedTuple

from pyromq.clock import Clock
from pyromq.errors import ConfigError
from pyromq.remembered import Remembered
from pyromq.security.addresses import parsed_ip

EACH: Final = "*"
BUCKETS_MAX: Final = 10_000
REMEMBERED_BYTES_MAX: Final = 4 << 20  # of names, with their limits or their buckets
NAME_CHARACTERS_MAX: Final = 255  # no topic, group or user has a longer one
_UNITS: Final = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_DIGITS_MAX: Final = 12
_SWEEP_MS: Final = 1_000  # a bucket that nobody uses is full after that time at the latest, unless it is in debt


class QuotaScope(StrEnum):
    USER = "user"
    ADDRESS = "address"
    TOPIC = "topic"
    GROUP = "group"


class Measure(StrEnum):
    MESSAGES = "messages"  # a second
    BYTES = "bytes"  # a second, of bodies when sent, of records when read
    CONNECTIONS = "connections"
    TOPICS = "topics"
    GROUPS = "groups"


class Direction(StrEnum):
    SENT = "sent"
    READ = "read"


_RATES: Final = (Measure.MESSAGES, Measure.BYTES)
_MEASURES: Final = {
    QuotaScope.USER: frozenset(Measure),
    QuotaScope.ADDRESS: frozenset((*_RATES, Measure.CONNECTIONS)),
    QuotaScope.TOPIC: frozenset(_RATES),
    QuotaScope.GROUP: frozenset(_RATES),
}


class Quota(NamedTuple):
    """One measure of one text."""

    scope: QuotaScope
    name: str  # or ``*``, or a network
    measure: Measure
    number: int


class Limit(NamedTuple):
    """A quota as it applies to somebody: all who share ``who`` share what it allows."""

    scope: QuotaScope
    who: str
    measure: Measure
    number: int

    def __str__(self) -> str:
        return f"{self.scope}:{self.who} {self.measure}={self.number}"


def parse_quotas(texts: Iterable[str]) -> tuple[Quota, ...]:
    """Parse quotas from their texts. Raises ConfigError for what is no quota, or is given twice."""
    found: dict[tuple[QuotaScope, str, Measure], Quota] = {}
    for text in texts:
        for quota in _parse(text):
            key = quota.scope, quota.name, quota.measure
            if key in found:
                raise ConfigError(f"quota {text[:120]!r}: {quota.measure} of {quota.scope}:{quota.name} is given twice")
            found[key] = quota
    return tuple(found.values())


def _parse(text: str) -> list[Quota]:
    who, *parts = text.split() or [""]
    scope_text, colon, name = who.partition(":")
    try:
        scope = QuotaScope(scope_text)
    except ValueError:
        kinds = ", ".join(f"{each}:" for each in QuotaScope)
        raise ConfigError(f"quota {text[:120]!r} begins with none of {kinds}") from None
    if not colon or not name or not parts:
        raise ConfigError(f"quota {text[:120]!r} is not of the form {scope}:name messages=1000 bytes=10m")
    if scope is QuotaScope.ADDRESS and name != EACH:
        name = str(_network(name, text))
    return [_measured(scope, name, part, text) for part in parts]


def _measured(scope: QuotaScope, name: str, part: str, text: str) -> Quota:
    key, _, value = part.partition("=")
    allowed = [each for each in Measure if each in _MEASURES[scope]]
    if key not in allowed:
        raise ConfigError(f"quota {text[:120]!r}: {scope} has {', '.join(allowed)}, not {key[:40]!r}")
    measure = Measure(key)
    factor = _UNITS.get(value[-1:].lower(), 1) if measure is Measure.BYTES else 1
    digits = value[:-1] if factor > 1 else value
    if not (digits.isascii() and digits.isdigit() and len(digits) <= _DIGITS_MAX and int(digits)):
        unit = ", with k, m or g behind it if you like" if measure is Measure.BYTES else ""
        raise ConfigError(f"quota {text[:120]!r}: {key} needs a whole number above 0{unit}, not {value[:40]!r}")
    return Quota(scope, name, measure, int(digits) * factor)


def _network(name: str, text: str) -> IPv4Network | IPv6Network:
    try:
        return ip_network(name, strict=False)
    except ValueError as error:
        raise ConfigError(f"quota {text[:120]!r}: {error}; write 10.0.0.7, 10.0.0.0/8 or *") from error


class QuotaRules:
    """Which limit applies to whom."""

    def __init__(self, quotas: Iterable[Quota] = ()) -> None:
        self._named: dict[tuple[QuotaScope, Measure, str], int] = {}
        self._each: dict[tuple[QuotaScope, Measure], int] = {}
        networks: list[tuple[IPv4Network | IPv6Network, Quota]] = []
        quotas = tuple(quotas)
        for quota in quotas:
            if quota.name == EACH:
                self._each[quota.scope, quota.measure] = quota.number
            elif quota.scope is QuotaScope.ADDRESS:
                networks.append((ip_network(quota.name), quota))
            else:
                self._named[quota.scope, quota.measure, quota.name] = quota.number
        self._networks = sorted(networks, key=lambda each: -each[0].prefixlen)
        self._kinds = {(quota.scope, quota.measure) for quota in quotas}
        self._found: Remembered[tuple[QuotaScope, Measure, str], Limit | None] = Remembered(REMEMBERED_BYTES_MAX)

    def has(self, measures: Iterable[Measure], *scopes: QuotaScope) -> bool:
        """Whether there is any quota of these."""
        wanted = set(measures)
        return any(measure in wanted and scope in scopes for scope, measure in self._kinds)

    def find(self, scope: QuotaScope, measure: Measure, name: str) -> Limit | None:
        """The limit that counts for somebody; None: there is none. Nobody has an empty name."""
        key = (scope, measure, name)
        return self._found[key] if key in self._found else self._found.remember(key, self._look(*key), name)

    def _look(self, scope: QuotaScope, measure: Measure, name: str) -> Limit | None:
        if not name:
            return None
        if (number := self._named.get((scope, measure, name))) is not None:
            return Limit(scope, name, measure, number)
        if scope is QuotaScope.ADDRESS and (ip := parsed_ip(name)) is not None:
            for network, quota in self._networks:
                if quota.measure is measure and ip in network:
                    return Limit(scope, quota.name, measure, quota.number)
        number = self._each.get((scope, measure))
        return None if number is None else Limit(scope, name, measure, number)


class TokenBucket:
    """Fills with ``limit.number`` a second, holds as much, and may owe."""

    __slots__ = ("_filled_ms", "_level", "limit")

    def __init__(self, limit: Limit, now_ms: int) -> None:
        self.limit = limit
        self._filled_ms = now_ms
        self._level = limit.number * 1_000  # in thousandths: whole numbers, so nothing is lost by rounding

    def level(self, now_ms: int) -> int:
        """In thousandths of what it measures."""
        rate = self.limit.number
        self._level = min(rate * 1_000, self._level + (now_ms - self._filled_ms) * rate)
        self._filled_ms = now_ms
        return self._level

    def take(self, count: int) -> None:
        self._level -= count * 1_000


Account = tuple[TokenBucket, ...]
"""All buckets that one request takes from."""


class Meter:
    """Owner of the buckets; there are at most ``BUCKETS_MAX`` of them, by the monotonic clock."""

    def __init__(self, rules: QuotaRules, clock: Clock) -> None:
        self._rules = rules
        self._clock = clock
        self._buckets: dict[tuple[Direction, Limit], TokenBucket] = {}
        self._accounts: Remembered[tuple[Direction, tuple[tuple[QuotaScope, str], ...]], Account]
        self._accounts = Remembered(REMEMBERED_BYTES_MAX)
        self._shared: dict[
            tuple[Direction, QuotaScope, Measure], TokenBucket
        ] = {}  # of those for whom there was no room
        self._swept_ms = clock.monotonic_ms() - _SWEEP_MS

    def __len__(self) -> int:
        return len(self._buckets)

    def account(self, direction: Direction, *whose: tuple[QuotaScope, str]) -> Account:
        key = (direction, whose)
        found = self._accounts.get(key)
        if found is None:
            names = [(scope, name[:NAME_CHARACTERS_MAX]) for scope, name in whose]
            limits = [self._rules.find(scope, measure, name) for scope, name in names for measure in _RATES]
            found = tuple(self._bucket(direction, limit) for limit in limits if limit is not None)
            self._accounts.remember(key, found, *(name for _, name in whose))
        return found

    def used_up(self, account: Account) -> Limit | None:
        """The first limit that is reached."""
        now_ms = self._clock.monotonic_ms()
        for bucket in account:
            if bucket.level(now_ms) <= 0:
                return bucket.limit
        return None

    def charge(self, account: Account, messages: int, size_bytes: int) -> None:
        for bucket in account:
            bucket.take(messages if bucket.limit.measure is Measure.MESSAGES else size_bytes)

    def _bucket(self, direction: Direction, limit: Limit) -> TokenBucket:
        key, now_ms = (direction, limit), self._clock.monotonic_ms()
        found = self._buckets.get(key)
        if found is not None:
            return found
        if len(self._buckets) >= BUCKETS_MAX:
            self._sweep(now_ms)
        if len(self._buckets) >= BUCKETS_MAX:  # so many at once are no coincidence: the rest shares one
            shared = (direction, limit.scope, limit.measure)
            if shared not in self._shared:
                self._shared[shared] = TokenBucket(limit._replace(who=EACH), now_ms)
            return self._shared[shared]
        self._buckets[key] = found = TokenBucket(limit, now_ms)
        return found

    def _sweep(self, now_ms: int) -> None:
        """A full bucket is as good as a new one."""
        if now_ms - self._swept_ms < _SWEEP_MS:
            return
        self._swept_ms = now_ms
        self._accounts.clear()
        self._shared.clear()
        kept = {key: each for key, each in self._buckets.items() if each.level(now_ms) < each.limit.number * 1_000}
        self._buckets = kept
