"""What the broker runs on itself is closed to strangers: one rule for all request codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyromq.model.names import HALF_TOPIC, OP_HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from pyromq.security.requests import ACCESS_CODES
from pyromq.wire.codes import RequestCode as Code
from pyromq.wire.codes import ResponseCode
from tests.hostile.every_request import request_of, served_codes
from tests.hostile.rig import Peer, victim

pytestmark = pytest.mark.integration

TOPICS = (HALF_TOPIC, OP_HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC, "rmq_sys_anything")
GROUPS = ("CID_RMQ_SYS_TRANS", "CID_RMQ_SYS_REVIVE_GROUP")
SENDS = {
    Code.SEND_MESSAGE,
    Code.SEND_MESSAGE_V2,
    Code.SEND_BATCH_MESSAGE,
    Code.SEND_REPLY_MESSAGE,
    Code.SEND_REPLY_MESSAGE_V2,
}
CHANGE_BOTH = {
    Code.PULL_MESSAGE,  # these two with an offset to commit
    Code.LITE_PULL_MESSAGE,
    Code.UPDATE_CONSUMER_OFFSET,
    Code.UPDATE_CONSUMER_OFFSETS,
    Code.LOCK_BATCH_MQ,
    Code.UNLOCK_BATCH_MQ,
    Code.INVOKE_BROKER_TO_RESET_OFFSET,
    Code.CLONE_GROUP_OFFSET,
    Code.UPDATE_AND_GET_GROUP_FORBIDDEN,
    Code.SET_MESSAGE_REQUEST_MODE,
    Code.POP_MESSAGE,
    Code.NOTIFICATION,
}
CHANGE_TOPIC = SENDS | {Code.UPDATE_AND_CREATE_TOPIC, Code.UPDATE_AND_CREATE_TOPIC_LIST, Code.DELETE_TOPIC_IN_BROKER}
CHANGE_GROUP = {
    Code.HEART_BEAT,
    Code.CONSUMER_SEND_MSG_BACK,
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
    Code.DELETE_SUBSCRIPTIONGROUP,
}
BY_ITSELF = {  # of one's own messages, or those that one was given a receipt for
    Code.END_TRANSACTION,
    Code.RESUME_CHECK_HALF_MESSAGE,
    Code.RECALL_MESSAGE,
    Code.ACK_MESSAGE,
    Code.BATCH_ACK_MESSAGE,
    Code.CHANGE_MESSAGE_INVISIBLETIME,
    Code.FORWARD_TO_DEAD_LETTERS,
}
LOOK = {
    Code.QUERY_MESSAGE,
    Code.QUERY_CONSUMER_OFFSET,
    Code.QUERY_QUEUE_RANGES,
    Code.GET_ALL_TOPIC_CONFIG,
    Code.GET_BROKER_CONFIG,
    Code.GET_BROKER_RUNTIME_INFO,
    Code.SEARCH_OFFSET_BY_TIMESTAMP,
    Code.GET_MAX_OFFSET,
    Code.GET_MIN_OFFSET,
    Code.GET_EARLIEST_MSG_STORETIME,
    Code.VIEW_MESSAGE_BY_ID,
    Code.GET_CONSUMER_LIST_BY_GROUP,
    Code.GET_ALL_CONSUMER_OFFSET,
    Code.GET_ALL_DELAY_OFFSET,
    Code.CHECK_CLIENT_CONFIG,
    Code.GET_TIMER_CHECK_POINT,
    Code.GET_TIMER_METRICS,
    Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
    Code.GET_TOPIC_STATS_INFO,
    Code.GET_CONSUMER_CONNECTION_LIST,
    Code.GET_PRODUCER_CONNECTION_LIST,
    Code.GET_CONSUME_STATS,
    Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
    Code.QUERY_TOPIC_CONSUME_BY_WHO,
    Code.QUERY_CONSUME_TIME_SPAN,
    Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER,
    Code.GET_CONSUMER_RUNNING_INFO,
    Code.QUERY_CORRECTION_OFFSET,
    Code.CONSUME_MESSAGE_DIRECTLY,
    Code.VIEW_BROKER_STATS_DATA,
    Code.GET_BROKER_CONSUME_STATS,
    Code.QUERY_CONSUME_QUEUE,
    Code.GET_ALL_PRODUCER_INFO,
    Code.QUERY_TOPICS_BY_CONSUMER,
    Code.QUERY_SUBSCRIPTION_BY_CONSUMER,
    Code.GET_TOPIC_CONFIG,
    Code.GET_SUBSCRIPTIONGROUP_CONFIG,
    Code.QUERY_ASSIGNMENT,
    Code.POLLING_INFO,
    Code.GET_ALL_MESSAGE_REQUEST_MODE,
    Code.QUERY_MEMBER_TABLES,
    Code.GET_BROKER_HA_STATUS,
}
WITHOUT_NAMES = {  # or about the caller's own connection
    Code.AWAIT_QUEUE_RANGES,
    Code.UPDATE_BROKER_CONFIG,
    Code.UNREGISTER_CLIENT,
    Code.CLEAN_EXPIRED_CONSUMEQUEUE,
    Code.CLEAN_UNUSED_TOPIC,
    Code.DELETE_EXPIRED_COMMITLOG,
    Code.QUERY_AUDIT_LOG,
    Code.QUERY_STORE_FACTS,
    Code.QUERY_PREPARED_CHECKS,
    Code.QUERY_MEMBER,
    Code.GRANT_MEMBER,
    Code.CONTROL_MEMBER,
    Code.REPORT_MEMBER,
    Code.GET_ACCESS_TABLES,
    Code.GET_REPLICA_CHALLENGE,
    *map(Code, ACCESS_CODES),  # users and policies; they have rules of their own
}
REFUSED = {int(ResponseCode.NO_PERMISSION), int(ResponseCode.INVALID_PARAMETER)}


def test_every_code_that_the_broker_serves_is_in_this_table() -> None:
    listed = [CHANGE_BOTH, CHANGE_TOPIC, CHANGE_GROUP, BY_ITSELF, LOOK, WITHOUT_NAMES]
    assert sorted(code for codes in listed for code in codes) == served_codes()


async def offsets_and_configs(peer: Peer) -> list[object]:
    """Everything that a client could have changed."""
    found: list[object] = []
    for code in (Code.GET_ALL_CONSUMER_OFFSET, Code.GET_ALL_TOPIC_CONFIG, Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG):
        body = (await peer.ask(code)).body
        for key in (b"pullOffsetTable", b"dataVersion"):
            body = body.replace(key, b"")
        found.append(body)
    return found


async def test_clients_change_nothing_that_the_broker_runs_on_itself(tmp_path: Path) -> None:
    async with victim(tmp_path) as server, Peer(server.broker) as peer:
        for code in (Code.UPDATE_AND_CREATE_TOPIC, Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP):
            fields, body = request_of(code, "orders", "readers")
            assert (await peer.ask(code, fields, body)).code == 0
        before = await offsets_and_configs(peer)
        for code in sorted(CHANGE_BOTH | CHANGE_TOPIC):
            for topic in TOPICS:
                fields, body = request_of(code, topic, "readers")
                response = await peer.ask(code, fields, body)
                absent = topic == "rmq_sys_anything" and response.code == ResponseCode.TOPIC_NOT_EXIST
                assert response.code in REFUSED or absent, (code, topic, response.code, response.remark)
        for code in sorted(CHANGE_BOTH | CHANGE_GROUP):
            for group in GROUPS:
                fields, body = request_of(code, "orders", group)
                response = await peer.ask(code, fields, body)
                assert response.code in REFUSED, (code, group, response.code, response.remark)
        assert await offsets_and_configs(peer) == before


async def test_tools_look_at_what_the_broker_runs_on_itself(tmp_path: Path) -> None:
    async with victim(tmp_path) as server, Peer(server.broker) as peer:
        for code in sorted(LOOK):
            for topic in TOPICS[:4]:
                fields, body = request_of(code, topic, GROUPS[0])
                response = await peer.ask(code, fields, body)
                assert response.code not in REFUSED, (code, topic, response.remark)
        for code in (Code.PULL_MESSAGE, Code.LITE_PULL_MESSAGE):
            fields, body = request_of(code, HALF_TOPIC, "TOOLS_CONSUMER")
            response = await peer.ask(code, fields | {"sysFlag": "4"}, body)
            assert response.code == ResponseCode.PULL_NOT_FOUND, response.remark


@pytest.mark.parametrize(
    "topic", ["RMQ_SYS_TRACE_TOPIC", "%RETRY%readers", "%DLQ%readers", "DefaultCluster_REPLY_TOPIC", "BenchmarkTest"]
)
async def test_topics_of_clients_with_names_of_the_system_stay_theirs(topic: str, tmp_path: Path) -> None:
    async with victim(tmp_path) as server, Peer(server.broker) as peer:
        for code in (Code.SEND_MESSAGE_V2, Code.UPDATE_CONSUMER_OFFSET, Code.LOCK_BATCH_MQ, Code.PULL_MESSAGE):
            fields, body = request_of(code, topic, "readers")
            assert (await peer.ask(code, fields, body)).code == 0, code


async def test_a_message_that_is_not_for_consumers_yet_cannot_be_sent_back(tmp_path: Path) -> None:
    """It would let a group read what a transaction has not committed."""
    async with victim(tmp_path) as server, Peer(server.broker) as peer:
        fields, _ = request_of(Code.SEND_MESSAGE_V2, "orders", "senders")
        prepared = await peer.ask(
            Code.SEND_MESSAGE_V2, fields | {"i": "TRAN_MSG\x01true\x02PGROUP\x01senders\x02", "f": "4"}, b"prepared"
        )
        assert prepared.code == 0
        position = int(prepared.ext["msgId"][-16:], 16)
        fields, body = request_of(Code.CONSUMER_SEND_MSG_BACK, "orders", "readers", position=position)
        response = await peer.ask(Code.CONSUMER_SEND_MSG_BACK, fields, body)
        assert response.code == ResponseCode.NO_PERMISSION, response.remark


async def test_an_offset_beyond_the_end_of_a_queue_is_refused(tmp_path: Path) -> None:
    async with victim(tmp_path) as server, Peer(server.broker) as peer:
        fields, body = request_of(Code.SEND_MESSAGE_V2, "orders", "readers")
        assert (await peer.ask(Code.SEND_MESSAGE_V2, fields, body)).code == 0
        fields, _ = request_of(Code.UPDATE_CONSUMER_OFFSET, "orders", "readers")
        for offset, code in ((0, 0), (1, 0), (2, 29), (1 << 62, 29), (-1, 29)):
            response = await peer.ask(Code.UPDATE_CONSUMER_OFFSET, fields | {"commitOffset": str(offset)})
            assert response.code == code, (offset, response.remark)
        fields, _ = request_of(Code.PULL_MESSAGE, "orders", "readers")
        response = await peer.ask(Code.PULL_MESSAGE, fields | {"queueOffset": "7", "commitOffset": "7"})
        assert response.code == ResponseCode.PULL_OFFSET_MOVED
        table = json.loads((await peer.ask(Code.GET_ALL_CONSUMER_OFFSET)).body.replace(b"{0:", b'{"0":'))
        assert table["offsetTable"] == {"orders@readers": {"0": 1}}, (
            "a pull that commits beyond the end commits nothing"
        )
