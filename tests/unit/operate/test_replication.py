"""What brokers tell about their copies, and what is judged to be wrong with it."""

from __future__ import annotations

from typing import Any

import pytest

from pyromq.metrics.health import Severity
from pyromq.operate.replication import BrokerCopy, beside_their_masters, copy_of, judge_copies
from pyromq.operate.sweep import BrokerProcess
from pyromq.wire.json.bodies import ReplicationState


def told_by(number: int, address: str, told: dict[str, str]) -> BrokerProcess:
    return BrokerProcess(cluster="c", broker="broker-a", number=number, address=address, time_ms=0, told=told)


def master(**told: Any) -> BrokerCopy:
    facts = {"replicationRole": "sync-master", "commitLogMaxOffset": "1000", "replicationInSync": "1"}
    facts |= {"replicationMetadataVersion": "7.3-9.1", "replicationConfirmed": "990"}
    return copy_of(told_by(0, "10.0.0.1:10911", facts | told))


def replica(number: int = 1, **told: Any) -> BrokerCopy:
    facts = {"replicationRole": "replica", "commitLogMaxOffset": "1000", "replicationState": "FOLLOWING"}
    facts |= {"replicationMetadataVersion": "7.3-9.1"}
    return copy_of(told_by(number, "10.0.0.2:10911", facts | told))


def findings(*copies: BrokerCopy) -> dict[str, list[tuple[Severity, str]]]:
    found: dict[str, list[tuple[Severity, str]]] = {}
    for about, finding in judge_copies(beside_their_masters(copies)):
        found.setdefault(about, []).append((finding.severity, finding.text))
    return found


def test_nothing_is_wrong_with_a_pair_that_follows() -> None:
    assert findings(master(), replica()) == {}
    first, second = beside_their_masters([master(), replica(commitLogMaxOffset="400")])
    assert (first.confirmed, first.in_sync, first.behind_bytes) == (990, 1, None)
    assert (second.behind_bytes, second.has_metadata, second.confirmed) == (600, True, None)


def test_a_replica_that_is_ahead_of_what_the_master_said_before_is_not_behind() -> None:
    assert beside_their_masters([master(), replica(commitLogMaxOffset="1200")])[1].behind_bytes == 0


@pytest.mark.parametrize(
    ("copies", "about", "severity", "text"),
    [
        ((master(), replica(replicationRole="async-master")), "replica 1 of broker-a", "bad", "two masters may take"),
        ((master(replicationRole="replica"),), "broker broker-a", "bad", "nothing can be sent to it"),
        ((master(replicationInSync="0"), replica()), "broker broker-a", "bad", "SLAVE_NOT_AVAILABLE"),
        ((master(replicationLateSends="2", replicationUnconfirmedSends="1"),), "broker broker-a", "warning", "3 sends"),
        (
            (master(), replica(replicationState="WAITING", replicationReason="refused the connection")),
            "replica 1 of broker-a", "warning", "(waiting): refused the connection",
        ),
        (
            (master(), replica(replicationState="REFUSED", replicationReason="its log is another")),
            "replica 1 of broker-a", "bad", "(refused): its log is another",
        ),
        (
            (master(commitLogMaxOffset=str(200 << 20)), replica(commitLogMaxOffset="0")),
            "replica 1 of broker-a", "warning", "200 MiB behind",
        ),
        ((master(), replica(replicationMetadataVersion="7.2-9.1")), "replica 1 of broker-a", "warning", "other topics"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_found(copies: tuple[BrokerCopy, ...], about: str, severity: str, text: str) -> None:
    ((found,),) = findings(*copies).values()
    assert next(iter(findings(*copies))) == about
    assert found[0].value == severity and text in found[1]


def test_what_does_not_answer_is_told_once_and_judged_by_nobody() -> None:
    gone = BrokerCopy(cluster="c", broker="broker-a", number=0, address="10.0.0.1:10911", problem="refused")
    assert findings(gone, replica()) == {}
    assert beside_their_masters([gone, replica()])[1].behind_bytes is None


def test_apaches_brokers_have_the_roles_that_their_own_status_tells() -> None:
    state = ReplicationState(master=True, in_sync_slave_nums=1)
    first = copy_of(told_by(0, "10.0.0.1:10911", {"commitLogMaxOffset": "77"}), state)
    second = copy_of(told_by(1, "10.0.0.2:10911", {"commitLogMaxOffset": "70"}), ReplicationState(master=False))
    assert [(each.role, each.in_sync) for each in (first, second)] == [("master", 1), ("replica", None)]
    assert findings(first, second) == {}
    assert beside_their_masters([first, second])[1].behind_bytes == 7


@pytest.mark.parametrize("odd", ["", "x", "1.5", "-"])
def test_numbers_that_are_none_are_not_known(odd: str) -> None:
    assert copy_of(told_by(0, "a:1", {"commitLogMaxOffset": odd})).end is None


def test_a_broker_under_a_failover_agent_tells_its_lease() -> None:
    copy = master(failoverLease="4", failoverGrantedMs="6500")
    assert (copy.lease, copy.granted_ms) == (4, 6_500)
    assert (master().lease, master().granted_ms) == (None, None)
