"""Quotas: texts, who is under which limit, and buckets that let nobody have more than its rate."""

from __future__ import annotations

import random

import pytest

from pyromq.errors import ConfigError
from pyromq.security import quotas
from pyromq.security.quotas import Direction, Limit, Measure, Meter, Quota, QuotaRules, QuotaScope, parse_quotas
from pyromq.testing import ManualClock


def rules(*texts: str) -> QuotaRules:
    return QuotaRules(parse_quotas(texts))


def test_a_text_holds_several_measures() -> None:
    assert parse_quotas(["user:billing messages=1000 bytes=10m"]) == (
        Quota(QuotaScope.USER, "billing", Measure.MESSAGES, 1000),
        Quota(QuotaScope.USER, "billing", Measure.BYTES, 10 << 20),
    )


def test_addresses_become_networks() -> None:
    (one,) = parse_quotas(["address:10.1.2.3/8 connections=5"])
    assert one.name == "10.0.0.0/8"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "begins with none of"),
        ("billing messages=1", "begins with none of"),
        ("user messages=1", "is not of the form"),
        ("user: messages=1", "is not of the form"),
        ("user:billing", "is not of the form"),
        ("user:billing messages", "whole number above 0"),
        ("user:billing messages=0", "whole number above 0"),
        ("user:billing messages=-1", "whole number above 0"),
        ("user:billing messages=10m", "whole number above 0"),
        ("user:billing bytes=m", "k, m or g"),
        ("user:billing bytes=1e3", "k, m or g"),
        ("user:billing messages=٣", "whole number above 0"),
        ("user:billing messages=" + "9" * 100, "whole number above 0"),
        ("user:billing speed=1", "not 'speed'"),
        ("topic:orders connections=1", "topic has messages, bytes, not 'connections'"),
        ("address:10.0.0.0/8 topics=1", "not 'topics'"),
        ("address:nowhere messages=1", "write 10.0.0.7"),
        ("user:billing messages=1 messages=2", "given twice"),
    ],
)
def test_what_is_no_quota_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        parse_quotas([text])


def test_the_same_measure_of_the_same_user_twice_is_a_mistake() -> None:
    with pytest.raises(ConfigError, match="given twice"):
        parse_quotas(["user:a messages=1", "user:a messages=2"])


def test_the_most_exact_quota_counts_measure_by_measure() -> None:
    found = rules("user:* messages=10 topics=5", "user:billing messages=1000").find
    assert found(QuotaScope.USER, Measure.MESSAGES, "billing") == Limit(
        QuotaScope.USER, "billing", Measure.MESSAGES, 1000
    )
    assert found(QuotaScope.USER, Measure.MESSAGES, "shop") == Limit(QuotaScope.USER, "shop", Measure.MESSAGES, 10)
    assert found(QuotaScope.USER, Measure.TOPICS, "billing") == Limit(QuotaScope.USER, "billing", Measure.TOPICS, 5)
    assert found(QuotaScope.USER, Measure.MESSAGES, "") is None, "nobody has no name"
    assert found(QuotaScope.TOPIC, Measure.MESSAGES, "billing") is None


def test_the_smaller_network_counts_and_is_shared() -> None:
    found = rules("address:10.0.0.0/8 messages=1", "address:10.1.0.0/16 messages=2", "address:* messages=3").find
    assert [str(found(QuotaScope.ADDRESS, Measure.MESSAGES, ip)) for ip in ("10.1.9.9", "10.2.0.1", "::1")] == [
        "address:10.1.0.0/16 messages=2",
        "address:10.0.0.0/8 messages=1",
        "address:::1 messages=3",
    ]
    assert found(QuotaScope.ADDRESS, Measure.MESSAGES, "::ffff:10.1.0.1") == found(
        QuotaScope.ADDRESS, Measure.MESSAGES, "10.1.0.2"
    )


def test_one_second_at_once_then_the_rate() -> None:
    clock = ManualClock()
    meter = Meter(rules("topic:orders messages=10"), clock)
    account = meter.account(Direction.SENT, (QuotaScope.TOPIC, "orders"))
    for _ in range(10):
        assert meter.used_up(account) is None
        meter.charge(account, 1, 0)
    assert str(meter.used_up(account)) == "topic:orders messages=10"
    clock.advance_ms(1)
    assert meter.used_up(account) is None


def test_more_than_a_second_is_worth_passes_and_is_paid_off() -> None:
    clock = ManualClock()
    meter = Meter(rules("user:a bytes=1k"), clock)
    account = meter.account(Direction.READ, (QuotaScope.USER, "a"))
    meter.charge(account, 1, 10 << 10)
    clock.advance_ms(9_000)
    assert meter.used_up(account) is not None
    clock.advance_ms(1)
    assert meter.used_up(account) is None


def test_what_is_sent_and_what_is_read_are_apart_and_so_is_each_user() -> None:
    meter = Meter(rules("user:* messages=1"), ManualClock())
    sent = meter.account(Direction.SENT, (QuotaScope.USER, "a"))
    meter.charge(sent, 5, 0)
    assert meter.used_up(sent)
    assert meter.used_up(meter.account(Direction.READ, (QuotaScope.USER, "a"))) is None
    assert meter.used_up(meter.account(Direction.SENT, (QuotaScope.USER, "b"))) is None


def test_nobody_gets_more_than_its_rate_whatever_it_does() -> None:
    rng, clock = random.Random(7), ManualClock()
    meter = Meter(rules("user:a messages=50 bytes=5k"), clock)
    account = meter.account(Direction.SENT, (QuotaScope.USER, "a"))
    messages = size_bytes = elapsed_ms = 0
    largest = 0
    for _ in range(20_000):
        if meter.used_up(account) is None:
            count, size = rng.randrange(1, 30), rng.randrange(1, 3_000)
            meter.charge(account, count, size)
            messages, size_bytes, largest = messages + count, size_bytes + size, max(largest, size)
        step_ms = rng.choice((0, 1, 3, 40, 200))
        clock.advance_ms(step_ms)
        elapsed_ms += step_ms
    assert messages <= 50 * (elapsed_ms / 1000 + 1) + 30
    assert size_bytes <= 5120 * (elapsed_ms / 1000 + 1) + largest
    assert messages > 50 * elapsed_ms / 1000 * 0.2, "and it is not starved"


def test_buckets_are_bounded_and_debts_are_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quotas, "BUCKETS_MAX", 100)
    clock = ManualClock()
    meter = Meter(rules("user:* messages=1"), clock)
    debtor = meter.account(Direction.SENT, (QuotaScope.USER, "debtor"))
    meter.charge(debtor, 1_000, 0)
    for number in range(1_000):
        meter.account(Direction.SENT, (QuotaScope.USER, f"u{number}"))
        clock.advance_ms(10)
    assert len(meter) <= 100
    assert meter.used_up(meter.account(Direction.SENT, (QuotaScope.USER, "debtor"))) is not None


def test_when_all_buckets_are_in_debt_newcomers_share_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quotas, "BUCKETS_MAX", 10)
    meter = Meter(rules("user:* messages=1"), ManualClock())
    for number in range(10):
        meter.charge(meter.account(Direction.SENT, (QuotaScope.USER, f"u{number}")), 100, 0)
    first = meter.account(Direction.SENT, (QuotaScope.USER, "new-1"))
    second = meter.account(Direction.SENT, (QuotaScope.USER, "new-2"))
    assert first[0] is second[0] and len(meter) == 10


def test_names_beyond_every_measure_take_no_room_and_share_a_bucket() -> None:
    clock = ManualClock()
    meter = Meter(QuotaRules(parse_quotas(["topic:* messages=1"])), clock)
    for number in range(20):
        name = "x" * 300 + f"{number}" * 100_000
        account = meter.account(Direction.SENT, (QuotaScope.TOPIC, name))
        assert [len(bucket.limit.who) for bucket in account] == [255]
    assert len(meter) == 1
    meter.charge(account, 1, 10)
    assert meter.used_up(meter.account(Direction.SENT, (QuotaScope.TOPIC, "x" * 999))) is not None
