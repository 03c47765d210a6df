"""What the handlers of topics, offsets, keys and groups answer at the edges, as RocketMQ does."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from pyromq.broker.admin import lookup_requests
from pyromq.broker.admin.group_requests import GroupHandler
from pyromq.broker.admin.lookup_requests import LookupHandler
from pyromq.broker.admin.offset_requests import OffsetHandler
from pyromq.broker.admin.topic_requests import TopicHandler
from pyromq.broker.base.refusals import RefusedError
from pyromq.broker.base.settings import BrokerSettings
from pyromq.broker.base.stats import Stats
from pyromq.broker.commit.write_path import WritePath
from pyromq.broker.state.filters import Filters
from pyromq.broker.state.members import Members
from pyromq.errors import CorruptRecordError
from pyromq.net import Connection
from pyromq.store import key_search, message_store
from pyromq.store.derived import index_file
from pyromq.store.key_search import FoundKeys
from pyromq.store.maintenance import Maintenance
from pyromq.store.message_store import MessageStore
from pyromq.store.settings import StoreSettings
from pyromq.store.tables.filter_table import FilterTable
from pyromq.store.tables.steps import all_steps
from pyromq.testing import CrashMode, FaultyDisk, ManualClock
from pyromq.wire.codes import ResponseCode
from pyromq.wire.headers.admin import CreateTopicHeader, GroupHeader, QueryConsumeQueueHeader
from pyromq.wire.headers.consumer import (
    QueryConsumerOffsetHeader,
    QueryMessageHeader,
    QueryMessageResponseHeader,
)
from pyromq.wire.headers.shared import TopicHeader
from pyromq.wire.json import bodies
from pyromq.wire.json.heartbeat import ConsumerData, Heartbeat, Subscription
from pyromq.wire.json.queue_ranges import decode_places
from pyromq.wire.json.route import TopicList, decode_topics
from pyromq.wire.record import Draft, split_records
from tests.unit.broker.builders import ROOT, Wire, producer_heartbeat, progress, request, tables, topics
from tests.unit.broker.long_answers import finished

SMALL = StoreSettings(segment_bytes=65_536, queue_file_entries=100, index_slots=100, index_entries=400)


@pytest.fixture
def store() -> MessageStore:
    return MessageStore.open(ROOT, SMALL, disk=FaultyDisk(), clock=ManualClock())


def refused(call: Any, header: Any) -> RefusedError:
    with pytest.raises(RefusedError) as caught:
        response = call(Wire().as_connection, request(header=header))
        if isinstance(response, Generator):
            finished(response)
    return caught.value


# --- offsets -------------------------------------------------------------------------------------------------------


def offsets_of(store: MessageStore) -> OffsetHandler:
    return OffsetHandler(store, tables())


def test_a_new_group_starts_at_the_beginning_of_a_young_queue(store: MessageStore) -> None:
    store.append([Draft(topic="orders", queue_id=0, body=b"x", properties=b"", born_ms=0)])
    asked = QueryConsumerOffsetHeader(consumer_group="new", topic="orders", queue_id=0)
    assert offsets_of(store).query(Wire().as_connection, request(header=asked)).offset == 0


def test_a_new_group_starts_at_the_beginning_of_a_queue_that_was_never_written(store: MessageStore) -> None:
    """Else it would ask for the end next, and skip what arrives between the two requests."""
    known, _ = topics()
    known.create("orders", queues=2)
    handler = OffsetHandler(store, tables(topics=known))
    asked = QueryConsumerOffsetHeader(consumer_group="new", topic="orders", queue_id=1)
    assert handler.query(Wire().as_connection, request(header=asked)).offset == 0
    for changes in ({"queue_id": 2}, {"set_zero_if_not_found": False}):
        assert refused(handler.query, msgspec.structs.replace(asked, **changes)).code == ResponseCode.QUERY_NOT_FOUND


@pytest.mark.parametrize(("topic", "queue_id"), [("orders", 1), ("unknown", 0)])
def test_a_queue_of_no_topic_has_no_offset_for_a_new_group(store: MessageStore, topic: str, queue_id: int) -> None:
    store.append([Draft(topic="orders", queue_id=0, body=b"x", properties=b"", born_ms=0)])
    asked = QueryConsumerOffsetHeader(consumer_group="new", topic=topic, queue_id=queue_id)
    assert refused(offsets_of(store).query, asked).code == ResponseCode.QUERY_NOT_FOUND


# --- queues --------------------------------------------------------------------------------------------------------


def lookups(store: MessageStore, members: Members[Any], sql: str = "") -> LookupHandler:
    disk, clock, (known, _) = FaultyDisk(), ManualClock(), topics()
    known.create("orders", queues=4)
    filters = Filters(FilterTable.load(disk, ROOT), clock)
    filters.register("readers", [Subscription(topic="orders", sub_string=sql, expression_type="SQL92")] if sql else [])
    return LookupHandler(store, tables(topics=known, members=members, filters=filters))


def view(handler: LookupHandler, group: str | None) -> bodies.QueueView:
    asked = QueryConsumeQueueHeader(topic="orders", queue_id=0, index=0, count=9, consumer_group=group)
    return bodies.decode(handler.entries(Wire().as_connection, request(header=asked)), bodies.QueueView)


@pytest.mark.parametrize(
    ("wanted", "kind", "filter_data", "taken"),
    [("*", "TAG", "null", [True, True]), ("A", "TAG", "null", [True, False]), ("a > 1", "SQL92", "a > 1", [False] * 2)],
)
def test_entries_of_a_queue_come_with_the_filter_of_a_group(
    store: MessageStore, wanted: str, kind: str, filter_data: str, taken: list[bool]
) -> None:
    for tag in (b"A", b"B"):
        store.append([Draft(topic="orders", queue_id=0, body=b"x", properties=b"TAGS\x01%b\x02" % tag, born_ms=0)])
    store.flush()
    members: Members[str] = Members(ManualClock())
    subscription = Subscription(topic="orders", sub_string=wanted, expression_type=kind)
    data = ConsumerData(group_name="readers", subscription_data_set=(subscription,))
    members.heard_from("wire", Heartbeat(client_id="c", consumer_data_set=(data,)), "JAVA", 1)
    handler = lookups(store, members, wanted if kind == "SQL92" else "")
    found = view(handler, "readers")
    assert filter_data in (found.filter_data or "")
    assert [entry.eval for entry in found.queue_data] == taken
    absent = view(handler, "absent")
    assert absent.filter_data == "absent@orders is not online" and absent.subscription_data is None
    assert view(handler, None).filter_data is None
    assert not any(entry.eval for each in (absent, view(handler, None)) for entry in each.queue_data)


# --- keys ----------------------------------------------------------------------------------------------------------


def queried(query: Any, header: QueryMessageHeader) -> tuple[QueryMessageResponseHeader, bytes]:
    return cast(
        "tuple[QueryMessageResponseHeader, bytes]", finished(query(Wire().as_connection, request(header=header)))
    )


def alike(count: int) -> list[str]:
    """So many keys with one Java hash."""
    return ["".join("Aa" if number >> bit & 1 else "BB" for bit in range(18)) for number in range(count)]


def test_of_keys_with_one_hash_only_so_many_are_compared_in_steps_and_the_caller_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(key_search.KeySearch.find, "__kwdefaults__", {"work_max": 300})
    clock, keys = ManualClock(), alike(400)
    settings = replace(SMALL, segment_bytes=1 << 20, queue_file_entries=1_000, index_entries=1_000)
    store = MessageStore.open(ROOT, settings, disk=FaultyDisk(), clock=clock)
    began_ms = clock.now_ms()
    for key in keys[:399]:
        clock.advance_ms(1_000)
        properties = f"KEYS\x01{key}\x02".encode()
        draft = Draft(topic="orders", queue_id=0, body=key.encode(), properties=properties, born_ms=0)
        store.append([draft])
    store.flush()
    query = lookups(store, Members(clock)).query
    asked = QueryMessageHeader(topic="orders", key=keys[398], max_num=2, begin_timestamp=0, end_timestamp=1 << 60)
    told, body = queried(query, asked)
    assert len(split_records(body)) == 1 and told.older_unseen, "an older one may have it, too"
    oldest = msgspec.structs.replace(asked, key=keys[0])
    error = refused(query, oldest)
    assert error.code == ResponseCode.INVALID_PARAMETER and "earlier end of the time range" in error.remark
    told, body = queried(query, msgspec.structs.replace(oldest, end_timestamp=began_ms + 200_000))
    assert [record.body for record in split_records(body)] == [keys[0].encode()] and told.older_unseen is None
    steps = query(Wire().as_connection, request(header=msgspec.structs.replace(asked, key=keys[399])))
    pauses = 0
    with pytest.raises(RefusedError):
        while True:
            next(steps)
            pauses += 1
    assert pauses == 300 // key_search.WORK_AT_ONCE, "others have their turns"
    monkeypatch.setattr(message_store, "WORK_NOW_MAX", 200)
    assert (len(store.find("orders", keys[398])), store.find("orders", keys[0])) == (1, []), "in one go even fewer"


def test_a_long_way_between_two_candidates_counts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_search, "WORK_AT_ONCE", 1)
    settings = replace(SMALL, segment_bytes=1 << 20, queue_file_entries=1_000, index_slots=1, index_entries=1_500)
    store = MessageStore.open(ROOT, settings, disk=FaultyDisk(), clock=ManualClock())
    names = [b"KEYS\x01k%d\x02" % number for number in range(1_000)]
    store.append([Draft(topic="orders", queue_id=0, body=b"", properties=each, born_ms=0) for each in names])
    bounds = {"count_max": 1, "begin_ms": 0, "end_ms": 1 << 60}
    links = 1_000 // index_file.LINKS_AT_ONCE
    store.flush()
    store.indexer.index_all()
    assert len(list(store.key_search.find("orders", "k0", **bounds))) == links, "a rest after each stretch"
    steps = store.key_search.find("orders", "k0", **bounds, work_max=2 * key_search.WORK_OF_LINKS)
    assert all_steps(steps) == FoundKeys([], is_all=False)


def test_an_unknown_key_is_answered_with_the_fields_that_clients_read(store: MessageStore) -> None:
    members: Members[Connection] = Members(ManualClock())
    asked = QueryMessageHeader(topic="orders", key="k", max_num=32, begin_timestamp=0, end_timestamp=1)
    error = refused(lookups(store, members).query, asked)
    assert error.code == ResponseCode.QUERY_NOT_FOUND
    assert error.ext == {"indexLastUpdateTimestamp": "0", "indexLastUpdatePhyoffset": "0"}


def test_a_key_is_not_looked_up_while_much_of_the_log_is_not_in_the_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup_requests, "_GAP_BYTES_MAX", 100_000)
    clock, disk = ManualClock(), FaultyDisk()
    store = MessageStore.open(ROOT, SMALL, disk=disk, clock=clock)
    for number in range(10):
        properties = b"KEYS\x01k%d\x02" % number
        store.append([Draft(topic="orders", queue_id=0, body=bytes(20_000), properties=properties, born_ms=0)])
    store.flush()
    disk = disk.after_crash(CrashMode.KEEP)
    store = MessageStore.open(ROOT, SMALL, disk=disk, clock=clock)
    query = lookups(store, Members(clock)).query
    asked = QueryMessageHeader(topic="orders", key="k9", max_num=32, begin_timestamp=0, end_timestamp=1 << 60)
    gap_bytes = store.indexer.gap_bytes
    error = refused(query, asked)
    assert error.code == ResponseCode.SYSTEM_BUSY and "try again" in error.remark
    assert store.indexer.gap_bytes == gap_bytes == store.end_position, "nothing was done for it"
    maintenance = Maintenance(store, disk, clock)
    while store.indexer.gap_bytes > 100_000:
        maintenance.tick()
    _, body = queried(query, asked)
    assert len(split_records(body)) == 1 and store.indexer.gap_bytes == 0


# --- topics --------------------------------------------------------------------------------------------------------


def test_a_topic_that_is_deleted_takes_its_offsets_along(store: MessageStore) -> None:
    (known, _), read = topics(), progress()
    known.create("orders", queues=1)
    read.commit("readers", "orders", 0, 5)
    read.commit("readers", "others", 0, 7)
    write_path = cast(WritePath, SimpleNamespace(store=store, group_commit=SimpleNamespace(commit_now=lambda: None)))
    handler = TopicHandler(write_path, tables(topics=known, progress=read), cast(Stats, None), BrokerSettings())
    handler.delete(Wire().as_connection, request(header=TopicHeader(topic="orders")))
    assert known.get("orders") is None
    assert read.committed("readers", "orders", 0) is None and read.committed("readers", "others", 0) == 7
    assert read.table.is_durable, "a crash would bring them back"


def test_all_topics_are_encoded_anew_only_after_a_change(store: MessageStore) -> None:
    known, _ = topics()
    write_path = cast(WritePath, SimpleNamespace(store=store, group_commit=SimpleNamespace(commit_now=lambda: None)))
    handler = TopicHandler(write_path, tables(topics=known), cast(Stats, None), BrokerSettings())

    def told() -> bytes:
        header, body = finished(handler.get_all(Wire().as_connection, request()))
        assert msgspec.json.decode(body)["topicConfigTable"].keys() == dict(known.items()).keys()
        assert header.total_topic_num == len(known.items())
        return cast(bytes, body)

    first = told()
    assert told() is first
    known.create("orders", queues=1)
    assert b'"orders"' in told() and told() is told()
    under_way = handler.get_all(Wire().as_connection, request(header=None))
    known.create("late", queues=1)  # while that response is being made
    finished(under_way)
    assert b'"late"' in told()
    handler.delete(Wire().as_connection, request(header=TopicHeader(topic="orders")))
    assert b'"orders"' not in told()
    known.announce()
    assert msgspec.json.decode(told())["dataVersion"]["counter"] == known.table.version.counter


def created(store: MessageStore, attributes: str) -> dict[str, str]:
    settings, (known, _) = BrokerSettings(), topics()
    write_path = cast(WritePath, SimpleNamespace(store=store, group_commit=None))
    handler = TopicHandler(write_path, tables(topics=known), cast(Stats, None), settings)
    header = CreateTopicHeader(
        topic="orders",
        default_topic="TBW102",
        read_queue_nums=4,
        write_queue_nums=4,
        perm=6,
        topic_filter_type="SINGLE_TAG",
        order=False,
        attributes=attributes,
    )
    finished(handler.create(Wire().as_connection, request(header=header)))
    config = known.get("orders")
    assert config is not None
    return config.attributes


def test_known_attributes_of_a_topic_are_kept(store: MessageStore) -> None:
    assert created(store, "+message.type=FIFO") == {"message.type": "FIFO"}


@pytest.mark.parametrize("changes", ["+no.such=1", "+message.type=FIFO,+no.such=1", "-no.such"])
def test_unknown_attributes_of_a_topic_are_refused(store: MessageStore, changes: str) -> None:
    with pytest.raises(RefusedError, match=r"no\.such") as caught:
        created(store, changes)
    assert caught.value.code == ResponseCode.SYSTEM_ERROR


# --- groups --------------------------------------------------------------------------------------------------------


class Socket:
    remote_text = "127.0.0.1:5678"


def test_all_producers_are_told_with_the_address_of_their_sockets() -> None:
    members: Members[Any] = Members(ManualClock())
    members.heard_from(Socket(), producer_heartbeat("p", "sellers"), "PYTHON", 1)
    handler = GroupHandler(tables(members=members), "here:1")
    (told,) = msgspec.json.decode(finished(handler.all_producers(Wire().as_connection, request())))["data"]["sellers"]
    assert told["remoteIP"] == "/127.0.0.1:5678"


def test_all_groups_are_told_with_their_number() -> None:
    handler = GroupHandler(tables(), "here:1")
    header, body = finished(handler.get_all(Wire().as_connection, request()))
    assert header.total_group_num == len(msgspec.json.decode(body)["subscriptionGroupTable"])


def test_topics_of_a_group_come_with_the_address_of_the_broker() -> None:
    read = progress()
    read.commit("readers", "orders", 0, 1)
    handler = GroupHandler(tables(progress=read), "here:1")
    asked = request(header=GroupHeader(group="readers"))
    told = decode_topics(handler.topics_of(Wire().as_connection, asked))
    assert told == TopicList(topic_list=["orders"], broker_addr="here:1")


def keyed(store: MessageStore, *keys: str) -> None:
    for number, key in enumerate(keys):
        properties = f"KEYS\x01{key}\x02".encode()
        store.append(
            [Draft(topic="orders", queue_id=number % 2, body=b"%d" % number, properties=properties, born_ms=0)]
        )
    store.flush()


def places(store: MessageStore, key: str, count_max: int = 1_000) -> tuple[list[tuple[int, int]], bool | None]:
    asked = QueryMessageHeader(
        topic="orders", key=key, max_num=count_max, begin_timestamp=0, end_timestamp=1 << 60, places_only=True
    )
    header, body = queried(lookups(store, Members(ManualClock())).query, asked)
    return [(place.number, place.offset) for place in decode_places(body)], header.all_found


def test_places_of_a_key_come_with_whether_these_are_all(store: MessageStore) -> None:
    one, other = alike(2)
    keyed(store, f"x {one}", other, "x", "y", f"{one} {one}")
    assert places(store, one) == ([(0, 0), (0, 2)], True), "keys with the same hash are others"
    assert places(store, "x") == ([(0, 0), (0, 1)], True)
    assert places(store, "x", count_max=2)[1], "as many as are wanted, and no more"
    assert places(store, "x", count_max=1) == ([(0, 1)], False)
    assert places(store, f"x {one}") == ([], True), "the index has each key for itself"
    assert places(store, "z") == ([], True)


def test_places_are_not_all_when_too_many_have_the_hash_or_a_message_is_damaged(
    store: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = alike(20)
    keyed(store, *keys)
    with monkeypatch.context() as patch:
        patch.setattr(key_search.KeySearch.find, "__kwdefaults__", {"work_max": 10})
        assert places(store, keys[0]) == ([], False)
        assert places(store, keys[19]) == ([(1, 9)], False)
    assert places(store, keys[0]) == ([(0, 0)], True)
    verify = store.key_search._records.verify

    def damaged(position: int) -> Any:
        if position == 0:
            raise CorruptRecordError(position=0, reason="bits have changed")
        return verify(position)

    monkeypatch.setattr(store.key_search._records, "verify", damaged)
    assert places(store, keys[19]) == ([(1, 9)], False), "what cannot be read may have the key, too"


def test_places_are_not_all_while_the_disk_refuses_the_index(
    store: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    keyed(store, "a", "b")
    monkeypatch.setattr(store.indexer, "index_some", lambda: False)
    assert places(store, "b") == ([], False)
