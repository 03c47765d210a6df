"""Decisions: which entry decides, and what matches what."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.errors import ConfigError
from pyromq.security.addresses import SourceRanges, WhiteList
from pyromq.security.policies import PolicyEntry, PolicyType, decide, make_user, parse_policies, parse_subject
from pyromq.security.resources import Action, Need, ResourcePattern, cluster, group, parse_resource, topic
from pyromq.security.secret import Secret
from pyromq.wire.json.access import AclInfo, PolicyEntryInfo, PolicyInfo
from tests.unit.security.people import entry

HERE = "10.1.2.3"


def decided(need: Need, *entries: PolicyEntryInfo, default: tuple[PolicyEntryInfo, ...] = (), ip: str = HERE) -> bool:
    policies = {
        PolicyType.CUSTOM: tuple(map(PolicyEntry.of, entries)),
        PolicyType.DEFAULT: tuple(map(PolicyEntry.of, default)),
    }
    return decide(policies, need, ip).allowed


PUB_ORDERS = Need(topic("orders"), (Action.PUB,))


def test_what_no_entry_allows_is_denied() -> None:
    assert not decide(None, PUB_ORDERS, HERE).allowed
    assert not decide({}, PUB_ORDERS, HERE).allowed
    assert not decided(PUB_ORDERS, entry("Topic:order", "Pub"), entry("Group:orders", "Pub"), entry("Topic:*", "Sub"))


@pytest.mark.parametrize("resource", ["Topic:orders", "topic:order*", "Topic:*", "*"])
def test_every_kind_of_pattern_allows(resource: str) -> None:
    assert decided(PUB_ORDERS, entry(resource, "pub"))
    assert decided(PUB_ORDERS, entry(resource, "All"))


def test_the_most_exact_entry_decides_whatever_their_order() -> None:
    ladder = ["*", "Topic:*", "Topic:o*", "Topic:order*", "Topic:orders"]
    for count in range(1, len(ladder) + 1):
        entries = [
            entry(each, "Pub", decision="Allow" if number == count - 1 else "Deny")
            for number, each in enumerate(ladder[:count])
        ]
        for shuffled in list(permutations(entries))[:30]:
            assert decided(PUB_ORDERS, *shuffled), ladder[count - 1]


def test_deny_wins_between_entries_that_are_equally_exact() -> None:
    need = Need(topic("orders"), (Action.SUB, Action.GET))
    allowed, denied = entry("Topic:orders", "Sub"), entry("Topic:orders", "Get", decision="Deny")
    assert not decided(need, allowed, denied)
    assert not decided(need, denied, allowed)


def test_one_of_several_actions_is_enough_and_an_entry_for_another_action_does_not_count() -> None:
    need = Need(group("billing"), (Action.SUB, Action.GET))
    assert decided(need, entry("Group:billing", "Get"))
    assert decided(need, entry("Group:bill*", "Sub"), entry("Group:billing", "Delete", decision="Deny"))


def test_the_default_policy_is_asked_only_when_the_custom_one_says_nothing() -> None:
    assert decided(PUB_ORDERS, default=(entry("Topic:*", "Pub"),))
    denied = entry("*", "All", decision="Deny")
    assert not decided(PUB_ORDERS, denied, default=(entry("Topic:orders", "Pub"),))
    assert decided(PUB_ORDERS, entry("Topic:orders", "Sub", decision="Deny"), default=(entry("Topic:*", "Pub"),))


@pytest.mark.parametrize(
    ("sources", "ip", "allowed"),
    [
        (("10.1.2.3",), HERE, True),
        (("10.0.0.0/8",), HERE, True),
        (("192.168.0.0/16", "10.1.2.0/24"), HERE, True),
        (("10.1.2.4",), HERE, False),
        (("10.1.3.0/24",), HERE, False),
        (("10.0.0.0/8",), "::ffff:10.9.9.9", True),
        (("2001:db8::/32",), "2001:db8::7", True),
        (("2001:db8::/32",), HERE, False),
        (("10.0.0.0/8",), "not an address", False),
        ((), "not an address", True),
    ],
)
def test_source_addresses(sources: tuple[str, ...], ip: str, allowed: bool) -> None:
    assert decided(PUB_ORDERS, entry("Topic:orders", "Pub", sources=sources), ip=ip) is allowed


def test_everything_at_once_is_not_covered_by_a_pattern_of_some() -> None:
    all_topics = Need(topic("*"), (Action.LIST,))
    assert decided(all_topics, entry("Topic:*", "List"))
    assert decided(all_topics, entry("*", "List"))
    assert not decided(all_topics, entry("Topic:a*", "List"), entry("Topic:orders", "All"))


@pytest.mark.parametrize(
    "text", ["", "Topic", "Topic:", "Topic: ", "Queue:x", "Topic:a*b", "Topic:**", "Topic:a**", "Namespace:x", "orders"]
)
def test_patterns_that_cannot_be_meant_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"resource|\*"):
        ResourcePattern.parse(text)


@given(st.sampled_from(["Topic", "Group", "Cluster"]), st.text("abc%_-", min_size=1, max_size=8), st.booleans())
def test_patterns_are_written_as_they_are_read(kind: str, name: str, is_prefix: bool) -> None:
    text = f"{kind}:{name}{'*' if is_prefix else ''}"
    assert str(ResourcePattern.parse(text)) == text
    assert ResourcePattern.parse(str(ResourcePattern.parse(text))) == ResourcePattern.parse(text)


def test_groups_are_known_by_their_retry_topics_too() -> None:
    assert str(ResourcePattern.parse("Group:%RETRY%billing")) == "Group:billing"
    assert group("%RETRY%billing") == group("billing") == parse_resource("Group:billing")
    assert parse_resource("Cluster:*") == cluster("*")


@pytest.mark.parametrize(
    "bad",
    [
        PolicyEntryInfo(resource="Topic:a", actions=(), decision="Allow"),
        PolicyEntryInfo(resource="Topic:a", actions=("Any",), decision="Allow"),
        PolicyEntryInfo(resource="Topic:a", actions=("Publish",), decision="Allow"),
        PolicyEntryInfo(resource="Topic:a", actions=("Pub",), decision="Maybe"),
        PolicyEntryInfo(resource="Topic:a", actions=("Pub",)),
        PolicyEntryInfo(actions=("Pub",), decision="Allow"),
        PolicyEntryInfo(resource="Topic:a", actions=("Pub",), decision="Allow", source_ips=("10.0.0.300",)),
        PolicyEntryInfo(resource="Topic:a", actions=("Pub",), decision="Allow", source_ips=("10.0.0.0/40",)),
    ],
)
def test_entries_that_cannot_work_are_refused(bad: PolicyEntryInfo) -> None:
    with pytest.raises(ConfigError):
        PolicyEntry.of(bad)


def test_policies_that_cannot_work_are_refused() -> None:
    for info in (
        AclInfo(),
        AclInfo(policies=()),
        AclInfo(policies=(PolicyInfo(policy_type="Custom"),)),
        AclInfo(policies=(PolicyInfo(policy_type="Special", entries=(entry("*", "All"),)),)),
    ):
        with pytest.raises(ConfigError):
            parse_policies(info)
    many = tuple(entry(f"Topic:t{number}", "Pub") for number in range(1_001))
    with pytest.raises(ConfigError, match="at most 1000"):
        parse_policies(AclInfo(policies=(PolicyInfo(entries=many),)))
    for text in ("alice", "User:", "Group:x", ""):
        with pytest.raises(ConfigError):
            parse_subject(text)
    assert parse_subject("user:alice") == "alice"


def test_users_need_a_name_and_a_password() -> None:
    for name, password in (("", "p"), (" ", "p"), ("a\nb", "p"), ("x" * 300, "p"), ("alice", ""), ("alice", "  ")):
        with pytest.raises(ConfigError) as caught:
            make_user(name, Secret(password))
        assert password not in str(caught.value) or len(password.strip()) <= 1


@pytest.mark.parametrize(
    ("pattern", "inside", "outside"),
    [
        ("*", "1.2.3.4", None),
        ("10.10.103.*", "10.10.103.9", "10.10.104.9"),
        ("192.168.0.*", "192.168.0.1", "192.168.1.1"),
        ("10.1.2-5.7", "10.1.4.7", "10.1.6.7"),
        ("10.1.2.{3,4}", "10.1.2.4", "10.1.2.5"),
        ("10.1.2.3,10.1.2.9", "10.1.2.9", "10.1.2.4"),
        ("10.1.0.0/16", "10.1.200.1", "10.2.0.1"),
        ("2001:db8::1", "2001:db8::1", "2001:db8::2"),
    ],
)
def test_white_lists_of_old(pattern: str, inside: str, outside: str | None) -> None:
    addresses = WhiteList((pattern,))
    assert inside in addresses
    assert outside is None or outside not in addresses
    assert "nonsense" not in addresses


def test_an_empty_white_list_holds_nobody_and_no_sources_mean_everybody() -> None:
    assert "10.0.0.1" not in WhiteList()
    assert "10.0.0.1" not in WhiteList(("", "  "))
    assert "10.0.0.1" in SourceRanges()
    for text in ("10.1.2", "10.1.2.x", "10.1.5-2.3", "10.1.2.256", "a.b.c.d", "10.1.2.-3"):
        with pytest.raises(ConfigError):
            WhiteList((text,))
