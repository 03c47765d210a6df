"""The fast form of the topic table's text against the plain one."""

from __future__ import annotations

import pytest

from pyromq.model.queue import QueueId
from pyromq.model.topic import DataVersion, TopicConfig
from pyromq.store.tables.steps import all_steps
from pyromq.store.tables.topics import encoded_topics
from pyromq.wire.json.bodies import QueueTimes, TimeSpans
from pyromq.wire.json.java_json import dumps, dumps_in_pieces, dumps_pretty
from pyromq.wire.json.registration import TopicTableBody


def table(count: int) -> TopicTableBody:
    topics = [TopicConfig(topic_name=f"topic-{number}", perm=4 + number % 3) for number in range(count)]
    if count:
        topics += [
            TopicConfig(topic_name='odd "name"\\', order=True),
            TopicConfig(topic_name="marked", attributes={"a": "@@", "b": '"@@"'}),
            TopicConfig(topic_name="größe", read_queue_nums=0),
        ]
    version = DataVersion(counter=7, timestamp=9)
    return TopicTableBody(data_version=version, topic_config_table={topic.topic_name: topic for topic in topics})


@pytest.mark.parametrize("count", [0, 1, 50])
def test_topics_are_written_like_any_other_table(count: int) -> None:
    assert all_steps(encoded_topics(table(count))) == dumps_pretty(table(count))


@pytest.mark.parametrize("count", [0, 1, 50])
@pytest.mark.parametrize("pretty", [False, True])
def test_pieces_of_a_list_are_its_text(count: int, pretty: bool) -> None:
    spans = TimeSpans(consume_time_span_set=[QueueTimes(message_queue=QueueId("t", "b", n)) for n in range(count)])
    whole = (dumps_pretty if pretty else dumps)(spans)
    for size in (1, 7, 1_000):
        assert b"".join(dumps_in_pieces(spans, "consume_time_span_set", size, pretty=pretty)) == whole


@pytest.mark.parametrize("count", [0, 1, 50])
@pytest.mark.parametrize("pretty", [False, True])
def test_pieces_of_a_table_are_its_text(count: int, pretty: bool) -> None:
    whole = (dumps_pretty if pretty else dumps)(table(count))
    for size in (1, 7, 1_000):
        assert b"".join(dumps_in_pieces(table(count), "topic_config_table", size, pretty=pretty)) == whole
