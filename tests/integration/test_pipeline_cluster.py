"""What the pipeline asks of brokers on the driver, where brokers are particular."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from pyromq import Admin, Message, Producer
from pyromq.broker.admin.lookup_requests import LookupHandler
from pyromq.client.consumer.base.broker_calls import BrokerCalls
from pyromq.errors import BrokerError, GroupNotFoundError, NoPermissionError, TopicNotFoundError
from pyromq.model.names import retry_topic
from pyromq.model.queue import QueueId
from pyromq.model.topic import Perm
from pyromq.pipeline.core.connections import close_all
from pyromq.pipeline.core.options import SourceOptions
from pyromq.pipeline.core.places import RelativeOffset
from pyromq.pipeline.reading.batch import plan_batch
from pyromq.pipeline.reading.broker_ranges import BrokerRanges
from pyromq.pipeline.reading.cluster import Cluster
from pyromq.pipeline.reading.filters import Condition
from pyromq.settings import Credentials
from pyromq.testing import LoopbackBroker
from pyromq.wire.headers.consumer import QueryMessageHeader
from tests.integration.guarded import ROOT, guarded_broker
from tests.integration.waiting import until_on_thread
from tests.unit.security.people import secret_of


@pytest.fixture
def broker() -> Iterator[LoopbackBroker]:
    with LoopbackBroker() as running:
        yield running
        close_all()


@pytest.fixture
def admin(broker: LoopbackBroker) -> Iterator[Admin]:
    with Admin(broker.nameserver) as asking:
        asking.topics.create("orders", queues=2)
        yield asking


def cluster(broker: LoopbackBroker, *, group: str = "", sql: str = "") -> Cluster:
    reading = SourceOptions(nameserver=broker.nameserver, topics=("orders",), group=group, sql=sql, retry_ms=10_000)
    return Cluster(reading)


def test_a_filter_that_brokers_do_not_understand_is_refused_before_anything_is_read(
    broker: LoopbackBroker, admin: Admin
) -> None:
    assert len(cluster(broker, sql="price > 10").held()) == 2
    with pytest.raises(BrokerError, match="SQL92"):
        cluster(broker, sql="price >").held()


def test_a_topic_that_is_not_there_is_named_with_the_closest_that_is(broker: LoopbackBroker, admin: Admin) -> None:
    for wrong, advice in (("order", "did you mean orders?"), ("payments", "create it first: pyromq topic create")):
        with pytest.raises(
            TopicNotFoundError, match=rf"there is no topic {wrong} at .*; {re.escape(advice)}"
        ) as raised:
            Cluster(SourceOptions(nameserver=broker.nameserver, topics=(wrong,))).held()
        assert raised.value.topic == wrong


def test_a_topic_that_may_not_be_read_is_no_empty_topic(broker: LoopbackBroker, admin: Admin) -> None:
    admin.topics.create("letters", queues=1, perm=Perm.WRITE)
    with pytest.raises(NoPermissionError, match="no queue of topic letters is readable"):
        Cluster(SourceOptions(nameserver=broker.nameserver, topics=("letters",))).held()


def has_queues(admin: Admin, topic: str) -> bool:
    try:
        return bool(admin.topics.route(topic).readable_queues(topic))
    except TopicNotFoundError:
        return False


def test_a_group_that_stores_its_progress_has_what_tools_look_for(broker: LoopbackBroker, admin: Admin) -> None:
    reading = cluster(broker, group="reports")
    reading.commit(dict.fromkeys(reading.held(), 0))
    until_on_thread(lambda: has_queues(admin, retry_topic("reports")), "name servers know the retry topic")
    with pytest.raises(BrokerError):  # nobody is connected
        admin.members.connections("reports")


def test_a_group_that_brokers_do_not_know_is_introduced(
    broker: LoopbackBroker, admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Apache's brokers do, this one refuses the first commit."""
    surely = BrokerCalls.commit_surely
    refused: list[QueueId] = []

    async def commit(self: BrokerCalls, queue: QueueId, offset: int) -> None:
        if not refused:
            refused.append(queue)
            raise GroupNotFoundError(code=26, remark="Group billing not exist!")
        await surely(self, queue, offset)

    async def one_by_one(self: BrokerRanges, group: str, offsets: object) -> bool:
        return False  # as with Apache's brokers

    monkeypatch.setattr(BrokerCalls, "commit_surely", commit)
    monkeypatch.setattr(BrokerRanges, "commit", one_by_one)
    reading = cluster(broker, group="billing")
    queues = list(reading.held())
    reading.commit(dict.fromkeys(queues, 0))
    assert refused and [admin.offsets.committed("billing", queue) for queue in queues] == [0, 0]
    assert "billing" in admin.groups.names()


def test_who_reads_in_no_group_needs_no_right_on_a_group() -> None:
    user = Credentials("spark", secret_of("spark"))
    with guarded_broker() as guarded, Admin(guarded.nameserver, credentials=ROOT) as admin:
        admin.topics.create("orders", queues=2)
        admin.access.create_user(user.access_key, user.secret_key)
        admin.access.apply_template("spark", "pipeline", topics=["orders"], groups=["reports"])
        with Producer(guarded.nameserver, group="writers", credentials=ROOT) as producer:
            producer.send(Message("orders", b"1"))
        keys = {"access_key": user.access_key, "secret_key": user.secret_key}
        options = SourceOptions(nameserver=guarded.nameserver, topics=("orders",), ending=RelativeOffset.LATEST, **keys)
        (planned,) = plan_batch(replace(options, starting=RelativeOffset.EARLIEST), Cluster(options))
        assert [len(each) for each in planned] == [1]
        close_all()


def test_messages_with_a_key_are_found_by_the_index_of_brokers_that_say_it_is_whole(
    broker: LoopbackBroker, admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Producer(broker.nameserver, group="shop") as producer:
        receipts = [
            producer.send(Message("orders", b"x", keys=(f"k{number % 50}", "all") if number % 2 else (f"k{number}",)))
            for number in range(100)
        ]
    asked = cluster(broker)
    queues = list(asked.held())
    wanted: dict[QueueId, set[int]] = {queue: set() for queue in queues}
    for number in (7, 8, 57):
        wanted[receipts[number].queue].add(receipts[number].offset)
    assert asked.with_keys(queues, {"k7", "k8"}) == wanted
    planned = plan_batch(asked._options, asked, [Condition("keys", "=", ("k7 all",))])
    found = {part.queue: set(range(part.start, part.end)) for parts in planned for part in parts}
    assert receipts[7].offset in found[receipts[7].queue] and receipts[57].offset in found[receipts[57].queue]
    assert sum(map(len, found.values())) < 100
    monkeypatch.setattr(LookupHandler, "_places", lambda self, header: self.query(None, of_rocketmq(header)))
    assert asked.with_keys(queues, {"k7"}) == {}, "a broker that answers with messages does not say that these are all"


def of_rocketmq(header: QueryMessageHeader) -> Any:
    return SimpleNamespace(header=msgspec.structs.replace(header, places_only=None))
