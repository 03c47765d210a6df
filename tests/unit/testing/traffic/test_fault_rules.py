from __future__ import annotations

import pytest

from pyromq.errors import ConfigError
from pyromq.testing.traffic.fault_rules import Fault, FaultKind, Matching, RandomRule, Rule
from pyromq.testing.traffic.requests import RequestFacts, codes_of
from pyromq.wire.codes import RequestCode

SEND = RequestFacts(int(RequestCode.SEND_MESSAGE_V2), "orders", "shop")
BEAT = RequestFacts(int(RequestCode.HEART_BEAT), "", "")
LOST = Fault(FaultKind.LOSE_RESPONSE)
ALL_KINDS = [Fault(kind) for kind in FaultKind]


def test_a_rule_lets_some_pass_and_hits_the_next() -> None:
    rule = Rule(LOST, Matching(codes_of("send"), "orders"), skip=2, times=2)
    hit = [rule.take(SEND) for _ in range(6)]
    assert hit == [None, None, LOST, LOST, None, None] and rule.is_over
    assert Rule(LOST, Matching()).take(BEAT) is LOST
    assert Rule(LOST, Matching(topic="others")).take(SEND) is None
    assert Rule(LOST, Matching(group="others")).take(SEND) is None


def test_a_rule_without_end_hits_all() -> None:
    rule = Rule(LOST, Matching(), times=None)
    assert all(rule.take(SEND) is LOST for _ in range(100)) and not rule.is_over


def draws(seed: int, *, beats: int) -> list[Fault | None]:
    rule = RandomRule(seed, 0.5, ALL_KINDS, Matching(codes_of(["send", "heartbeat"])))
    drawn = []
    for _ in range(50):
        for _ in range(beats):
            rule.take(BEAT)
        drawn.append(rule.take(SEND))
    return drawn


def test_what_is_decided_about_a_request_does_not_depend_on_the_others() -> None:
    assert draws(1, beats=0) == draws(1, beats=3)
    assert draws(1, beats=0) != draws(2, beats=0)
    assert 10 < sum(fault is not None for fault in draws(1, beats=0)) < 40


def test_a_rate_of_nothing_and_of_everything() -> None:
    never, always = (RandomRule(1, rate, ALL_KINDS, Matching()) for rate in (0.0, 1.0))
    assert not any(never.take(SEND) for _ in range(100))
    assert all(always.take(SEND) for _ in range(100)) and not always.is_over


def test_requests_have_names_and_codes() -> None:
    assert codes_of("any") is None and codes_of(["send", "any"]) is None
    assert codes_of(RequestCode.HEART_BEAT) == codes_of("heartbeat") == {34}
    assert codes_of(["heartbeat", 11]) == {34, 11}
    assert (SEND.name, BEAT.name, str(SEND), str(BEAT)) == (
        "send",
        "heartbeat",
        "send (topic orders, group shop)",
        "heartbeat",
    )
    assert RequestFacts(int(RequestCode.QUERY_MESSAGE), "", "").name == "query_message"
    assert RequestFacts(99_999, "", "").name == "99999"
    with pytest.raises(ConfigError, match="no requests 'sending'"):
        codes_of("sending")
