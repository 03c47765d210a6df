from __future__ import annotations

import msgspec
import pytest

from pyromq.errors import RemoteProtocolError
from pyromq.model.queue import QueueId
from pyromq.wire.json import bodies
from pyromq.wire.json.bodies import (
    AssignmentRequest,
    AssignmentResponse,
    ClientOffsets,
    ConsumeStatsBody,
    GroupMemberIds,
    GroupOffsets,
    KeyValues,
    LockRequest,
    LockResponse,
    QueueAssignment,
    QueueProgress,
    ResetOffsets,
    TopicOffset,
    TopicStats,
    encode_reset_list,
)

Q0, Q1 = QueueId("t", "broker-a", 0), QueueId("t", "broker-a", 1)


@pytest.mark.parametrize(
    "body",
    [
        KeyValues({"putTps": "0.0 0.0 0.0"}),
        GroupMemberIds(consumer_id_list=["10.0.0.5@1#123"]),
        LockRequest(consumer_group="g", client_id="c", mq_set=(Q0, Q1), only_this_broker=True),
        LockResponse(granted=(Q1,)),
        AssignmentRequest(topic="t", consumer_group="g", client_id="c"),
        AssignmentResponse(message_queue_assignments=(QueueAssignment(message_queue=Q0, mode="POP"),)),
        ConsumeStatsBody(offset_table={Q0: QueueProgress(broker_offset=5), Q1: QueueProgress()}, consume_tps=1.5),
        TopicStats(offset_table={Q0: TopicOffset(max_offset=2**63 - 1)}),
        ResetOffsets(offset_table={Q0: 1, Q1: -1}),
        ClientOffsets(message_queue_table={Q0: 1}),
        GroupOffsets(consumer_table={"c1": {Q0: 1}, "c2": {}}),
    ],
    ids=lambda body: type(body).__name__,
)
def test_a_body_reads_back(body: msgspec.Struct) -> None:
    assert bodies.decode(bodies.encode(body), type(body)) == body


def test_a_lock_request_of_go_lacks_the_newest_field() -> None:
    data = b'{"clientId":"c","consumerGroup":"g","mqSet":[{"topic":"t","brokerName":"broker-a","queueId":0}]}'
    assert bodies.decode(data, LockRequest) == LockRequest(consumer_group="g", client_id="c", mq_set=(Q0,))


def test_offsets_may_be_keyed_by_quoted_json() -> None:
    key = r'"{\"brokerName\":\"broker-a\",\"queueId\":0,\"topic\":\"t\"}"'
    assert bodies.decode(f'{{"offsetTable":{{{key}:7}}}}'.encode(), ResetOffsets).offset_table == {Q0: 7}
    assert bodies.decode(f'{{"consumerTable":{{"c":{{{key}:7}}}}}}'.encode(), GroupOffsets).consumer_table == {
        "c": {Q0: 7}
    }


def test_the_list_form_for_other_clients_reads_back() -> None:
    offsets = ResetOffsets(offset_table={Q0: 5, Q1: 6})
    assert bodies.decode(encode_reset_list(offsets), ResetOffsets) == offsets


def test_queues_keep_their_order_on_the_way_out() -> None:
    table = {QueueId("t", "broker-a", number): number for number in (9, 10, 1)}
    data = bodies.encode(ResetOffsets(offset_table=table))
    assert list(bodies.decode(data, ResetOffsets).offset_table) == list(table)


@pytest.mark.parametrize(
    "data",
    [
        b"", b"5", b"[]", b'{"offsetTable":5}', b'{"offsetTable":[5]}', b'{"offsetTable":{"{":5}}',
        b'{"offsetTable":{"x":5}}', b'{"offsetTable":{0:5}}', b'{"offsetTable":{{}:5}}',
        b'{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"t"}:"x"}}',
        b'{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"t"}:9223372036854775808}}',
        b'{"offsetTable":{"{}":5}}',
    ],
)  # fmt: skip
def test_other_offset_tables_are_typed_errors(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        bodies.decode(data, ResetOffsets)
