"""``pyromq pipeline mirror`` between Apache's cluster and ours, both ways: messages, order, groups that move."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from interop.jars import Jars
from interop.tests.conftest import apache_cluster, pyromq_cluster
from interop.tests.conftest import case as any_case
from interop.world import until
from pyromq import Admin, Message, Producer, PushConsumer
from pyromq.pipeline.jobs import Selection
from pyromq.pipeline.jobs.common.plain_rows import rows_of
from pyromq.pipeline.mirroring.job import MirrorRound, mirror
from pyromq.pipeline.mirroring.marks import MIRRORED_FROM

SECTION = "Mirror, from × to"
QUEUES = 4
PATIENCE_S = 90
Nameservers = dict[str, str]


def case(name: str) -> pytest.MarkDecorator:
    return any_case(name, SECTION)


@pytest.fixture(scope="module")
def nameservers(tmp_path_factory: pytest.TempPathFactory, jars: Jars) -> Iterator[Nameservers]:
    folder: Path = tmp_path_factory.mktemp("mirror")
    with apache_cluster(jars, folder / "apache") as apache, pyromq_cluster(folder / "pyromq") as ours:
        yield {"apache": apache.nameserver, "pyromq": ours.nameserver}


class Direction:
    """A topic and a group of one test, in the cluster ``here`` at first; messages are named by numbers."""

    def __init__(self, here: str, there: str, stack: ExitStack) -> None:
        self.here, self.there = here, there
        self.topic, self.group = f"mirrored-{time.time_ns():x}", f"movers-{time.time_ns():x}"
        self.admin = stack.enter_context(Admin(here))
        self.producer = stack.enter_context(Producer(here, group="mirror-shop"))
        self.ids: list[str] = []
        self.admin.topics.create(self.topic, queues=QUEUES)
        self.admin.groups.create(self.group)
        until(lambda: self._has_route(), PATIENCE_S, "the new topic")

    def _has_route(self) -> bool:
        try:
            return len(self.admin.topics.route(self.topic).readable_queues(self.topic)) == QUEUES
        except Exception:  # name servers hear of a new topic a moment later
            return False

    def send(self, count: int, **more: Any) -> None:
        first = len(self.ids)
        made = (Message(self.topic, b"%d" % number, **more) for number in range(first, first + count))
        self.ids += [self.producer.send(each).message_id for each in made]

    def mirror(self, **more: Any) -> MirrorRound:
        return mirror([self.topic], self.here, self.there, groups=[self.group], **more)

    def rows(self, nameserver: str) -> list[dict[str, Any]]:
        chosen = Selection(topics=(self.topic,), nameserver=nameserver)
        found = rows_of(chosen, "queue_id", "queue_offset", "message_id", "body", "keys", "tags", "properties")
        return sorted(found, key=lambda row: (row["queue_id"], row["queue_offset"]))

    def consume(self, nameserver: str, is_enough: Callable[[list[int]], bool]) -> list[int]:
        """What the group consumes in a cluster until it is enough, and a moment longer; its progress is committed."""
        got: list[int] = []
        lock = threading.Lock()

        def listen(message: Any) -> None:
            with lock:
                got.append(int(message.body))

        with PushConsumer(nameserver, group=self.group, listener=listen, topics=[self.topic], start="earliest"):
            until(lambda: is_enough(got), PATIENCE_S, "consuming")
            time.sleep(3)  # what must not come would come now
        return got


@pytest.fixture(params=[("apache", "pyromq"), ("pyromq", "apache")], ids=["apache-pyromq", "pyromq-apache"])
def direction(request: pytest.FixtureRequest, nameservers: Nameservers) -> Iterator[Direction]:
    here, there = request.param
    with ExitStack() as stack:
        yield Direction(nameservers[here], nameservers[there], stack)


@case("copies have ids, bodies, keys, tags, properties and the order of their queues; a second run copies nothing")
def test_copies_are_the_messages_in_their_order(direction: Direction) -> None:
    direction.send(200, keys="k 1", tags="paid", properties={"colour": "green"})
    first, again = direction.mirror(), direction.mirror()
    assert (first.copied, first.lag, first.queues, again.copied, again.repeated) == (200, 0, QUEUES, 0, 0)
    here, there = direction.rows(direction.here), direction.rows(direction.there)
    kept = ("queue_id", "message_id", "body", "keys", "tags")
    assert [[row[name] for name in kept] for row in there] == [[row[name] for name in kept] for row in here]
    assert sorted(row["message_id"] for row in there) == sorted(direction.ids)
    assert all(row["properties"]["colour"] == "green" and row["properties"][MIRRORED_FROM] for row in there)


@case("a group moves while the mirror follows: no message is missed, none comes again")
def test_a_group_moves_without_gap_or_repeat(direction: Direction) -> None:
    direction.send(120)
    consumed = direction.consume(direction.here, lambda got: len(set(got)) == 120)
    assert sorted(consumed) == list(range(120))
    direction.send(80)  # which the group has not consumed when it moves
    done = direction.mirror()
    (moved,) = done.groups
    assert (done.copied, done.lag, moved.behind, moved.is_exact) == (200, 0, 80, True)
    after = direction.consume(direction.there, lambda got: len(set(got)) >= 80)
    assert sorted(after) == list(range(120, 200))
