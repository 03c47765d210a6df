"""Who may pull what: every rule refuses with its own code and reason, and without it the pull is served."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from pyromq.broker.base.refusals import RefusedError
from pyromq.broker.base.settings import BrokerSettings
from pyromq.broker.base.stats import Counters
from pyromq.broker.pulling.pull import PullHandler
from pyromq.broker.pulling.pull_waiters import PullWaiters
from pyromq.broker.state.members import Members
from pyromq.model.topic import GroupConfig, Perm, TopicConfig
from pyromq.store.message_store import MessageStore
from pyromq.store.settings import Flush, StoreSettings
from pyromq.testing import FaultyDisk, ManualClock
from pyromq.wire.codes import ResponseCode
from pyromq.wire.flags import ForbiddenType, PullFlag
from pyromq.wire.headers.consumer import PullHeader
from pyromq.wire.json.heartbeat import MessageModel
from pyromq.wire.record import Draft
from tests.unit.broker.builders import ROOT, Wire, environment, groups, heartbeat, progress, request, tables, topics

SMALL = StoreSettings(flush=Flush.ASYNC, segment_bytes=1 << 16, index_slots=10, index_entries=50)
PULL = PullHeader(
    consumer_group="readers",
    topic="orders",
    queue_id=1,
    queue_offset=0,
    max_msg_nums=32,
    sys_flag=0,
    commit_offset=0,
    suspend_timeout_millis=0,
    sub_version=1,
)


class Client(Wire):
    def send_parts(self, head: bytes, parts: Any) -> None:
        self.send(b"".join((head, *(bytes(part) for part in parts))))


class Rig:
    """A message in queue 1 of orders, and a group whose member subscribes to the topic."""

    def __init__(self) -> None:
        clock = ManualClock()
        self.settings = BrokerSettings(store=SMALL)
        self.store = MessageStore.open(ROOT, SMALL, disk=FaultyDisk(), clock=clock)
        self.store.append([Draft(topic="orders", queue_id=1, body=b"x", properties=b"", born_ms=0)])
        self.topics, _ = topics()
        self.topics.create("orders", queues=2)
        self.groups, self.progress = groups(), progress()
        self.groups.update(GroupConfig(group_name="readers"))
        self.members = Members[Any](clock)
        self.wire, self.counters = Client(), Counters()
        self.members.heard_from(self.wire, heartbeat("c1", "orders"), "JAVA", 479)
        state = tables(topics=self.topics, groups=self.groups, progress=self.progress, members=self.members)
        self.waiters = PullWaiters(clock, 10)
        self.pulls = PullHandler(environment(self.settings, clock), state, self.store, self.waiters, self.counters)

    def pull(self, *, oneway: bool = False, **changes: Any) -> None:
        header = msgspec.structs.replace(PULL, **changes)
        self.pulls.pull(self.wire.as_connection, request(7, oneway=oneway, header=header))


def forbid_broker(rig: Rig) -> None:
    rig.settings.permission = int(Perm.WRITE)


def forbid_group(rig: Rig) -> None:
    rig.groups.update(GroupConfig(group_name="readers", consume_enable=False))


def forbid_topic(rig: Rig) -> None:
    rig.topics.update(TopicConfig(topic_name="orders", read_queue_nums=2, perm=int(Perm.WRITE)))


def forbid_broadcasting(rig: Rig) -> None:
    beat = heartbeat("c1", "orders")
    broadcasting = msgspec.structs.replace(beat.consumer_data_set[0], message_model=MessageModel.BROADCASTING)
    rig.members.heard_from(rig.wire, msgspec.structs.replace(beat, consumer_data_set=(broadcasting,)), "JAVA", 479)
    rig.groups.update(GroupConfig(group_name="readers", consume_broadcast_enable=False))


def forbid_subscription(rig: Rig) -> None:
    rig.groups.allow_read("readers", "orders", False)


def test_a_member_gets_what_it_subscribes_to() -> None:
    rig = Rig()
    rig.pull()
    (response,) = rig.wire.responses
    assert (response.code, response.correlation_id, response.ext["nextBeginOffset"]) == (0, 7, "1")


@pytest.mark.parametrize(
    ("forbid", "kind"),
    [
        (forbid_broker, ForbiddenType.BROKER),
        (forbid_group, ForbiddenType.GROUP),
        (forbid_topic, ForbiddenType.TOPIC),
        (forbid_broadcasting, ForbiddenType.BROADCASTING),
        (forbid_subscription, ForbiddenType.SUBSCRIPTION),
    ],
)
def test_what_is_forbidden_is_refused_with_who_forbade_it(forbid: Callable[[Rig], None], kind: ForbiddenType) -> None:
    rig = Rig()
    forbid(rig)
    with pytest.raises(RefusedError) as caught:
        rig.pull()
    assert caught.value.code is ResponseCode.NO_PERMISSION
    assert caught.value.ext == {"forbiddenType": str(int(kind))} and kind.name.lower() in caught.value.remark
    assert rig.wire.frames == []


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"queue_id": 2}, ResponseCode.INVALID_PARAMETER),
        ({"queue_id": -1}, ResponseCode.INVALID_PARAMETER),
        ({"topic": "nothing"}, ResponseCode.TOPIC_NOT_EXIST),
        ({"consumer_group": "others"}, ResponseCode.SUBSCRIPTION_NOT_EXIST),
        ({"topic": "BenchmarkTest"}, ResponseCode.SUBSCRIPTION_NOT_EXIST),
        ({"sub_version": 2}, ResponseCode.SUBSCRIPTION_NOT_LATEST),
    ],
)
def test_what_is_not_there_is_refused_with_its_own_code(changes: dict[str, Any], code: ResponseCode) -> None:
    rig = Rig()
    with pytest.raises(RefusedError) as caught:
        rig.pull(**changes)
    assert caught.value.code is code


def test_a_pull_commits_only_what_its_queue_has() -> None:
    rig, commit = Rig(), int(PullFlag.COMMIT_OFFSET)
    rig.pull(sys_flag=commit, commit_offset=2)
    assert rig.progress.committed("readers", "orders", 1) is None
    rig.pull(commit_offset=1)
    assert rig.progress.committed("readers", "orders", 1) is None, "only when it says so"
    rig.pull(sys_flag=commit, commit_offset=1)
    assert rig.progress.committed("readers", "orders", 1) == 1


def test_a_pending_reset_comes_before_messages_and_once() -> None:
    rig = Rig()
    rig.progress.reset("readers", "orders", 1, 0)
    rig.pull(queue_offset=1)
    rig.pull(queue_offset=0)
    assert rig.wire.codes == [ResponseCode.PULL_OFFSET_MOVED, ResponseCode.SUCCESS]


def test_pulls_that_need_not_wait_are_told_what_they_met() -> None:
    rig = Rig()
    for offset, queue in ((1, 1), (9, 1), (-1, 1), (0, 0), (3, 0)):
        rig.pull(queue_offset=offset, queue_id=queue)
    missed, moved = ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_OFFSET_MOVED
    assert rig.wire.codes == [missed, moved, moved, missed, moved]
    assert (len(rig.waiters), rig.counters.pulls_missed) == (0, 5)


def test_a_one_way_pull_is_not_answered() -> None:
    rig = Rig()
    rig.pull(oneway=True)
    rig.pull(oneway=True, queue_offset=1)
    assert rig.wire.frames == []
