"""Groups whose members are written in different languages: they share the queues, and stand in for each other."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from interop.drivers import Drivers
from interop.tests import conftest
from interop.world import Cluster, Member, World, bodies_of, numbers, until

SECTION = "Mixed groups"
PAIRS = ("java+pyromq", "pyromq+go", "java+go")


@pytest.fixture(params=PAIRS)
def languages(request: pytest.FixtureRequest) -> tuple[str, ...]:
    return tuple(request.param.split("+"))


@pytest.fixture
def world(cluster: Cluster, drivers: Drivers) -> Iterator[World]:
    """The producer is ours; members come from drivers of their own, which may be killed."""
    each = World(drivers.get("pyromq"), cluster, drivers)
    yield each
    each.close()


def gathered(members: list[Member]) -> list[str]:
    return list(itertools.chain(*(bodies_of(member.wait(0)) for member in members)))


@conftest.case("{languages}: each gets a share, nothing twice", SECTION)
def test_members_share(world: World, languages: tuple[str, ...]) -> None:
    world.create_topic()
    producer = world.start("producer")
    members = [world.push(client=world.drivers.get(language)) for language in languages]
    world.settle(producer, members)
    world.send(producer, numbers(40))
    until(lambda: len(gathered(members)) >= 40, what="the last of 40 messages")
    assert all(bodies_of(member.wait(0)) for member in members)
    assert sorted(gathered(members)) == numbers(40)


@conftest.case("{languages}: orderly, each gets a share, in order", SECTION)
def test_orderly_members_share(world: World, languages: tuple[str, ...]) -> None:
    world.create_topic()
    producer = world.start("producer")
    members: list[Member] = []
    for language in languages:  # one after the other: the Go client keeps locks of queues that it has given up
        members.append(world.push(client=world.drivers.get(language), orderly=True))
        world.settle(producer, members)
    messages = [{"topic": world.topic, "body": body, "shard": n % 4} for n, body in enumerate(numbers(40))]
    producer.call("send", mode="ordered", messages=messages)
    until(lambda: len(gathered(members)) >= 40, what="the last of 40 messages")
    assert sorted(gathered(members)) == numbers(40)
    for member in members:
        for shard in range(4):
            of_shard = [body for body in bodies_of(member.wait(0)) if int(body) % 4 == shard]
            assert of_shard == sorted(of_shard)


@conftest.case("{languages}: kill -9 of the first, the other takes over, nothing is lost", SECTION)
def test_the_second_takes_over(world: World, languages: tuple[str, ...]) -> None:
    take_over(world, languages)


@conftest.case("{languages}: kill -9 of the second, the other takes over, nothing is lost", SECTION)
def test_the_first_takes_over(world: World, languages: tuple[str, ...]) -> None:
    take_over(world, languages[::-1])


def take_over(world: World, languages: tuple[str, ...]) -> None:
    world.create_topic()
    producer, doomed = world.start("producer"), world.drivers.fresh(languages[0])
    victim = world.push(client=doomed)
    survivor = world.push(client=world.drivers.get(languages[1]))
    world.settle(producer, [victim, survivor])
    world.send(producer, numbers(40))
    until(lambda: len(gathered([victim, survivor])) >= 40, what="the last of 40 messages")
    heard = bodies_of(victim.wait(0))
    doomed.kill()
    world.send(producer, numbers(40, start=40))
    everything = set(numbers(80))
    until(lambda: set(heard) | set(gathered([survivor])) == everything, 40, "the takeover")
    assert set(numbers(40, start=40)) <= set(gathered([survivor]))
