"""Fault switches: what goes wrong, in which requests, on purpose and always in the same way.

    broker.faults.lose_response("orders")              # of the next send: stored, but its sender never hears of it
    broker.faults.refuse("orders", times=3)            # SYSTEM_BUSY for three sends
    broker.faults.slow("orders", seconds=5)            # by the broker's clock, virtual or real
    broker.faults.deliver_twice("orders")              # stored twice, as after a producer's second attempt
    broker.faults.crash_before_flush("orders")         # what was acknowledged is there afterwards, this send is not
    broker.faults.cut_connection("orders")
    broker.faults.random(rate=0.1)                     # some of all that, chosen by the seed
    with broker.faults.nameserver_away(): ...

Every switch takes a topic, a group, and which ``requests`` it is about (``"send"`` if nothing is said), how many it
lets pass first (``skip``) and how many it hits (``times``; None for all). ``happened`` says what did.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta

import msgspec

from pyromq.errors import ConfigError
from pyromq.testing.traffic.fault_rules import Fault, FaultKind, Matching, RandomRule, Rule
from pyromq.testing.traffic.requests import RequestFacts, Requests, codes_of
from pyromq.wire.codes import ResponseCode

RANDOM_KINDS = (
    FaultKind.LOSE_RESPONSE,
    FaultKind.REFUSE,
    FaultKind.SLOW,
    FaultKind.TWICE,
    FaultKind.CUT,
    FaultKind.CUT_WHEN_DONE,
)
RANDOM_REQUESTS = ("send", "pull", "send_back", "commit", "end_transaction")
_SLOW_MS = 1_000  # of a random fault: less than any client waits
_REMARK = "refused by a fault of the test"


class FaultHit(msgspec.Struct, frozen=True):
    """A fault that happened. ``at_ms`` is the broker's wall clock."""

    at_ms: int
    kind: FaultKind
    request: RequestFacts

    def __str__(self) -> str:
        return f"{self.kind}: {self.request}"


class Faults:
    """Faults of one broker. ``seed`` decides what ``random`` does; ``cannot_crash`` says why, if that is so."""

    def __init__(
        self, seed: int, now_ms: Callable[[], int], set_away: Callable[[bool], None], cannot_crash: str
    ) -> None:
        self.seed = seed
        self.happened: list[FaultHit] = []
        self._rules: list[Rule | RandomRule] = []
        self._redeliveries: list[Rule] = []  # asked when a pull has brought a message, not when it begins
        self._now_ms = now_ms
        self._set_away = set_away
        self._cannot_crash = cannot_crash

    # --- for tests ---

    def lose_response(
        self, topic: str = "", *, group: str = "", requests: Requests = "send", skip: int = 0, times: int | None = 1
    ) -> None:
        """Done, but whoever asked does not hear of it: the acknowledgement is lost."""
        self._add(Fault(FaultKind.LOSE_RESPONSE), _matching(topic, group, requests), skip, times)

    def refuse(
        self,
        topic: str = "",
        code: ResponseCode = ResponseCode.SYSTEM_BUSY,
        *,
        remark: str = _REMARK,
        group: str = "",
        requests: Requests = "send",
        skip: int = 0,
        times: int | None = 1,
    ) -> None:
        """Answered with this code, and not done."""
        fault = Fault(FaultKind.REFUSE, code=ResponseCode(code), remark=remark)
        self._add(fault, _matching(topic, group, requests), skip, times)

    def slow(
        self,
        topic: str = "",
        by: timedelta | None = None,
        *,
        seconds: float = 0,
        group: str = "",
        requests: Requests = "send",
        skip: int = 0,
        times: int | None = 1,
    ) -> None:
        """Done so much later. With virtual time nobody waits for it really. Raises ConfigError for no time."""
        delay_ms = round(1000 * (seconds + (by.total_seconds() if by is not None else 0)))
        if delay_ms <= 0:
            raise ConfigError("how slow? say slow(topic, seconds=5) or slow(topic, timedelta(minutes=1))")
        self._add(Fault(FaultKind.SLOW, delay_ms=delay_ms), _matching(topic, group, requests), skip, times)

    def deliver_twice(self, topic: str = "", *, group: str = "", skip: int = 0, times: int | None = 1) -> None:
        """Without a group: the next send is stored twice under one message id, as after a producer's second attempt.

        With one: what this group gets next comes to it again, as after a member that died before it committed.
        """
        rule = self._add(Fault(FaultKind.TWICE), _matching(topic, group, "pull" if group else "send"), skip, times)
        if group:
            self._rules.remove(rule)
            self._redeliveries.append(rule)

    def cut_connection(
        self,
        topic: str = "",
        *,
        done: bool = False,
        group: str = "",
        requests: Requests = "send",
        skip: int = 0,
        times: int | None = 1,
    ) -> None:
        """The connection ends when the request arrives. With ``done`` the request is done before, and a producer that
        tries again stores its message twice."""
        kind = FaultKind.CUT_WHEN_DONE if done else FaultKind.CUT
        self._add(Fault(kind), _matching(topic, group, requests), skip, times)

    def crash_before_flush(
        self, topic: str = "", *, group: str = "", requests: Requests = "send", skip: int = 0, times: int | None = 1
    ) -> None:
        """The machine stops when the request has arrived and starts again: unflushed bytes are gone, with this request.

        Raises ConfigError when the broker's store is not on a FaultyDisk.
        """
        if self._cannot_crash:
            raise ConfigError(self._cannot_crash)
        self._add(Fault(FaultKind.CRASH), _matching(topic, group, requests), skip, times)

    def random(
        self,
        rate: float = 0.1,
        *,
        kinds: Collection[FaultKind | str] = RANDOM_KINDS,
        topic: str = "",
        group: str = "",
        requests: Requests = RANDOM_REQUESTS,
    ) -> None:
        """A share ``rate`` of the requests meets one of the ``kinds``; which ones, ``seed`` decides.

        Raises ConfigError for a rate outside of 0 to 1, or kinds that there are not.
        """
        if not 0 <= rate <= 1:
            raise ConfigError(f"a rate is a share, from 0 to 1, not {rate}")
        try:
            chosen = [FaultKind(kind) for kind in kinds]
        except ValueError as error:
            raise ConfigError(f"{error}; there are {', '.join(FaultKind)}") from error
        if not chosen:
            raise ConfigError("which faults? kinds is empty")
        if FaultKind.CRASH in chosen and self._cannot_crash:
            raise ConfigError(self._cannot_crash)
        faults = [Fault(kind, remark=_REMARK, delay_ms=_SLOW_MS) for kind in chosen]
        self._rules.append(RandomRule(self.seed, rate, faults, _matching(topic, group, requests)))

    @contextmanager
    def nameserver_away(self) -> Iterator[None]:
        """Inside the block nobody reaches the name server; brokers and clients live from what they know."""
        self._set_away(True)
        try:
            yield
        finally:
            self._set_away(False)

    def clear(self) -> None:
        """Nothing goes wrong any more; what ``happened`` stays."""
        self._rules.clear()
        self._redeliveries.clear()

    @property
    def waiting(self) -> int:
        """How many switches have not hit all that they are meant to hit: 0 when a test saw what it wanted to see."""
        rules = [*self._redeliveries, *(rule for rule in self._rules if isinstance(rule, Rule))]
        return sum(rule.times is not None and not rule.is_over for rule in rules)

    # --- for the traffic ---

    def choose(self, facts: RequestFacts) -> Fault | None:
        """What happens to a request: the first rule that wants it says so."""
        return self._first(self._rules, facts)

    def is_redelivered(self, facts: RequestFacts) -> bool:
        """Whether a message that a pull has brought comes again."""
        return self._first(self._redeliveries, facts) is not None

    def _first(self, rules: Sequence[Rule | RandomRule], facts: RequestFacts) -> Fault | None:
        for rule in list(rules):
            if fault := rule.take(facts):
                self.happened.append(FaultHit(self._now_ms(), fault.kind, facts))
                return fault
        return None

    def _add(self, fault: Fault, matches: Matching, skip: int, times: int | None) -> Rule:
        if skip < 0 or (times is not None and times < 1):
            raise ConfigError("skip is 0 or more, times 1 or more (None for all)")
        rule = Rule(fault, matches, skip, times)
        self._rules.append(rule)
        return rule


def _matching(topic: str, group: str, requests: Requests) -> Matching:
    return Matching(codes_of(requests), topic, group)
