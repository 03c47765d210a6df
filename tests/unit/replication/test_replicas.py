"""What a master believes of its replicas, and what that confirms."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.errors import ConfigError
from pyromq.replication.replicas import ReplicaConnection, Replicas, Standing
from pyromq.replication.settings import ReplicationSettings, Role


def replicas(**settings: object) -> Replicas:
    return Replicas(ReplicationSettings(role=Role.SYNC_MASTER, **settings))  # type: ignore[arg-type]


def at(known: Replicas, host: str, position: int, sent: int = 1_000, **facts: object) -> ReplicaConnection:
    connection = known.connected(host, f"{host}:1")
    for name, value in facts.items():
        setattr(connection, name, value)
    known.begins(connection, position)
    assert known.reported(connection, position)
    connection.sent = sent
    return connection


def test_two_connections_of_one_replica_count_once() -> None:
    known = replicas(in_sync_replicas=3)
    at(known, "10.0.0.1", 900)
    at(known, "10.0.0.1", 1_000)
    assert (known.in_sync(1_000), known.standing(1_000)) == ([1_000], Standing.TOO_FEW)
    assert known.confirmed(1_000) == 0
    at(known, "10.0.0.2", 800)
    assert (known.standing(1_000), known.confirmed(1_000)) == (Standing.ENOUGH, 800)


def test_replicas_that_say_their_ids_count_each_though_they_share_a_machine() -> None:
    known = replicas(in_sync_replicas=3)
    at(known, "10.0.0.1", 900, broker_id=1)
    at(known, "10.0.0.1", 950, broker_id=1)
    assert known.standing(1_000) is Standing.TOO_FEW, "two connections of one"
    at(known, "10.0.0.1", 800, broker_id=2)
    assert (known.in_sync(1_000), known.confirmed(1_000)) == ([950, 800], 800)
    at(known, "10.0.0.2", 1_000, broker_id=1)
    assert known.in_sync(1_000) == [1_000, 950, 800], "the same id on another machine is another replica"
    at(known, "10.0.0.1", 990)
    at(known, "10.0.0.1", 980)
    assert known.in_sync(1_000) == [1_000, 990, 950, 800], "those that say nothing are one for each address"


def test_a_copy_is_never_counted() -> None:
    known = replicas()
    copy = at(known, "10.0.0.1", 1_000, is_copy=True)
    assert (known.standing(1_000), known.confirmed(1_000), known.positions()) == (Standing.TOO_FEW, 0, {})
    assert not known.is_in_sync(copy, 1_000)


def test_the_first_report_counts_as_nothing_and_neither_does_its_repetition() -> None:
    known = replicas()
    connection = known.connected("10.0.0.1", "10.0.0.1:1")
    known.begins(connection, 500)
    connection.sent = 1_000
    assert (known.positions(), known.standing(1_000)) == ({}, Standing.TOO_FEW)
    assert not known.is_in_sync(connection, 1_000)
    assert not known.reported(connection, 500) and known.positions() == {}, "it has taken nothing of what it was sent"
    assert known.reported(connection, 501) and known.positions() == {"10.0.0.1": 501}


def test_a_replica_that_has_everything_says_so_by_repeating_it() -> None:
    known = replicas()
    connection = known.connected("10.0.0.1", "10.0.0.1:1")
    known.begins(connection, 1_000)
    assert known.reported(connection, 1_000) and known.confirmed(1_000) == 1_000


@pytest.mark.parametrize(
    ("position", "reason"), [(1_001, "beyond"), (-1, "negative"), (499, "lower"), (-(1 << 63), "neg")]
)
def test_a_forged_position_changes_nothing_and_is_told_once(
    position: int, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    known = replicas()
    connection = at(known, "10.0.0.1", 500)
    with caplog.at_level(logging.WARNING):
        assert not known.reported(connection, position)
        assert not known.reported(connection, position)
    assert known.confirmed(1_000) == 500
    assert caplog.text.count("not believed") == 1 and reason in caplog.text
    assert known.reported(connection, 1_000) and known.confirmed(1_000) == 1_000


def test_a_replica_that_is_far_behind_confirms_nothing() -> None:
    known = replicas(gap_bytes_max=100)
    connection = at(known, "10.0.0.1", 900)
    assert known.standing(1_000) is Standing.TOO_FEW, "it misses exactly as much as is too much"
    known.reported(connection, 901)
    assert known.standing(1_000) is Standing.ENOUGH


def test_a_replica_that_gets_no_further_is_not_in_sync_until_it_does(caplog: pytest.LogCaptureFixture) -> None:
    known = replicas(stall_ms_max=2_000)
    connection = at(known, "10.0.0.1", 900)
    assert not known.notice_stalls(10_000) and known.next_stall_ms(10_000) == 12_000
    known.reported(connection, 950)
    assert not known.notice_stalls(11_999) and known.next_stall_ms(11_999) == 13_999, "it got on meanwhile"
    assert not known.notice_stalls(13_998) and known.confirmed(1_000) == 950
    assert known.notice_stalls(13_999) and known.standing(1_000) is Standing.TOO_FEW
    assert (known.confirmed(1_000), known.is_in_sync(connection, 1_000)) == (0, False)
    assert not known.notice_stalls(20_000) and caplog.text.count("stalled") == 1, "it is told once"
    assert known.reported(connection, 950) and known.standing(1_000) is Standing.TOO_FEW, "a mere sign of life"
    known.reported(connection, 960)
    assert (known.standing(1_000), known.confirmed(1_000)) == (Standing.ENOUGH, 960)


def test_a_replica_that_has_everything_never_stalls() -> None:
    known = replicas(stall_ms_max=2_000)
    connection = at(known, "10.0.0.1", 1_000)
    assert not known.notice_stalls(0) and not known.notice_stalls(60_000)
    connection.sent = 1_100
    assert not known.notice_stalls(60_001) and known.in_sync(1_100) == [1_000], "its time begins with what it was sent"


def test_a_replica_that_has_said_nothing_is_not_there() -> None:
    known = replicas()
    known.connected("10.0.0.1", "10.0.0.1:1")
    assert (known.standing(0), known.positions()) == (Standing.TOO_FEW, {})


def test_a_replica_that_went_confirms_nothing_any_more() -> None:
    known = replicas()
    connection = at(known, "10.0.0.1", 1_000)
    known.disconnected(connection)
    known.disconnected(connection)
    assert (known.confirmed(1_000), known.standing(1_000)) == (0, Standing.TOO_FEW)


@pytest.mark.parametrize("in_sync_replicas", [-1, 0, 1, 2])
def test_sync_means_two_copies_whatever_the_settings_say(in_sync_replicas: int) -> None:
    known = replicas(in_sync_replicas=in_sync_replicas, auto_in_sync_replicas=True, min_in_sync_replicas=1)
    assert known.standing(10) is Standing.TOO_FEW
    at(known, "10.0.0.1", 10)
    assert (known.standing(10), known.confirmed(10)) == (Standing.ENOUGH, 10)


def test_a_master_may_wait_for_as_many_as_there_are_or_for_all() -> None:
    some, every = replicas(in_sync_replicas=3, auto_in_sync_replicas=True), replicas(all_in_sync=True)
    for known in (some, every):
        at(known, "10.0.0.1", 1_000)
    assert some.standing(1_000) is Standing.ENOUGH
    at(some, "10.0.0.2", 700)
    at(every, "10.0.0.2", 700)
    at(every, "10.0.0.3", 600)
    assert (some.confirmed(1_000), every.confirmed(1_000)) == (700, 600)


@given(st.lists(st.integers(0, 1_000), max_size=6), st.integers(2, 5))
def test_what_is_confirmed_has_as_many_copies_as_are_needed(positions: list[int], needed: int) -> None:
    known = replicas(in_sync_replicas=needed)
    for number, position in enumerate(positions):
        at(known, f"10.0.0.{number}", position)
    confirmed = known.confirmed(1_000)
    assert confirmed == 0 or sum(position >= confirmed for position in positions) >= needed - 1


# --- settings ---


def test_a_port_beyond_loopback_needs_the_risk_by_name() -> None:
    with pytest.raises(ConfigError, match=r"replication\.insecure_network"):
        ReplicationSettings(role=Role.ASYNC_MASTER, host="0.0.0.0")
    assert ReplicationSettings(role=Role.ASYNC_MASTER, host="0.0.0.0", insecure_network=True)
    assert ReplicationSettings(role=Role.REPLICA, host="0.0.0.0"), "a replica has no port for replicas"


def test_only_named_addresses_may_connect() -> None:
    settings = ReplicationSettings()
    assert settings.allows("127.0.0.1") and settings.allows("127.9.9.9") and settings.allows("::1")
    assert settings.allows("::ffff:127.0.0.1")
    assert not settings.allows("10.0.0.1") and not settings.allows("::ffff:10.0.0.1")
    assert ReplicationSettings(replica_addresses=("10.0.0.7",)).allows("10.0.0.7")
    assert not ReplicationSettings(replica_addresses=()).allows("127.0.0.1")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"port": 70_000}, "outside"),
        ({"slice_bytes": 0}, "slice_bytes"),
        ({"slice_bytes": 5 << 20}, "slice_bytes"),
        ({"confirm_timeout_ms": 0}, "confirm_timeout_ms"),
        ({"stall_ms_max": 0}, "stall_ms_max"),
        ({"replica_addresses": ("example.org",)}, "neither an address nor a network"),
        ({"master_address": "nowhere"}, "nowhere"),
        ({"role": Role.SYNC_MASTER, "host": "example.org"}, "not an IP address"),
    ],
)
def test_settings_that_make_no_sense_are_refused(given: dict[str, object], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        ReplicationSettings(**given)  # type: ignore[arg-type]
