"""Quotas: what clients of Java, Go and ours see when a quota of our broker is used up, and that nothing is lost."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from interop.driver import ClientUnderTest, DriverError
from interop.drivers import Drivers
from interop.tests import conftest
from interop.world import Cluster, Member, World
from pyromq import Admin

SECTION = "Clients × quotas of our broker"
BROKER = "broker-a"
RATE = 5  # messages in a second
BUSY = 2
FLOW_CONTROL = "[FLOW_CONTROL]"


def case(name: str) -> pytest.MarkDecorator:
    return conftest.case(name, SECTION)


@pytest.fixture(scope="module", params=["pyromq"])
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with conftest.pyromq_cluster(Path(tmp_path_factory.mktemp("quotas"))) as running:
        yield running


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[Admin]:
    with Admin(cluster.nameserver) as each:
        yield each
        each.brokers.update_config(BROKER, {"quotas": ""})


@pytest.fixture
def world(client: ClientUnderTest, cluster: Cluster, drivers: Drivers, admin: Admin) -> Iterator[World]:
    each = World(client, cluster, drivers)
    admin.topics.create(each.topic, queues=2)
    admin.groups.create(each.group)
    yield each
    each.close()


def refused(admin: Admin, what: str) -> int:
    return int(admin.brokers.runtime(BROKER)[f"quotaRefused{what}"])


def sent(world: World, producer: Member, body: str) -> bool:
    """Whether it was; else the client told its application that the broker has no room now."""
    try:
        (result,) = world.send(producer, [body])
    except DriverError as error:
        assert error.code == BUSY or FLOW_CONTROL in error.message, error
        return False
    assert result["status"] == "SEND_OK", result
    return True


@case("a send beyond the quota is told so, and was not stored; one that is sent again arrives once")
def test_sends_beyond_a_quota_are_told_so_and_nothing_is_lost(world: World, admin: Admin) -> None:
    admin.brokers.update_config(BROKER, {"quotas": f"topic:{world.topic} messages={RATE}"})
    before = refused(admin, "Sends")
    producer = world.start("producer", retries=0)
    bodies, times_refused, deadline = [f"m{number}" for number in range(4 * RATE)], 0, time.monotonic() + 60
    for body in bodies:
        while not sent(world, producer, body):
            times_refused += 1
            assert time.monotonic() < deadline
            time.sleep(0.05)
    assert refused(admin, "Sends") - before >= times_refused
    assert bool(times_refused) != (world.client.language == "pyromq"), "ours pauses and tries again by itself"
    admin.brokers.update_config(BROKER, {"quotas": ""})
    consumer = world.push()
    assert sorted(each["body"] for each in consumer.wait(len(bodies))) == sorted(bodies)
    time.sleep(0.5)
    assert len(consumer.wait(0)) == len(bodies), "what was refused was not stored"


@case("pulls beyond the quota wait a moment, and everything arrives")
def test_pulls_beyond_a_quota_wait_and_everything_arrives(world: World, admin: Admin) -> None:
    producer = world.start("producer")
    bodies = [f"m{number}" for number in range(8 * RATE)]
    world.send(producer, bodies)
    admin.brokers.update_config(BROKER, {"quotas": f"group:{world.group} messages={2 * RATE}"})
    before = refused(admin, "Pulls")
    consumer = world.push()
    assert sorted(each["body"] for each in consumer.wait(len(bodies), timeout_s=80)) == sorted(bodies)
    world.send(producer, ["later"])
    seen = consumer.wait(len(bodies) + 1, timeout_s=80)
    assert sorted(each["body"] for each in seen) == sorted([*bodies, "later"]), "it goes on, and nothing came twice"
    assert refused(admin, "Pulls") > before


@case("a producer that may try again does so by itself")
def test_a_producer_tries_again_by_itself(world: World, admin: Admin, note: conftest.Note) -> None:
    admin.brokers.update_config(BROKER, {"quotas": f"topic:{world.topic} messages=1"})
    producer = world.start("producer", retries=3)
    before, told = refused(admin, "Sends"), 0
    for number in range(4):
        told += not sent(world, producer, f"m{number}")
    tries = refused(admin, "Sends") - before
    if world.client.language == "go":
        assert 0 < tries == told
        note("Go's producer does not try again after a response with code 2: the application is told at once")
    else:
        assert tries > told and (told or world.client.language == "pyromq")
