"""One well-formed request of every code that a broker serves, about a topic and a group of the caller's choice."""

from __future__ import annotations

import json
from typing import Any, cast

from pyromq.broker.request_table import Handlers
from pyromq.wire.batch import BatchItem, encode_batch
from pyromq.wire.codes import RequestCode as Code
from pyromq.wire.json.membership import SMALL_TABLES


class _Stub:
    def __getattr__(self, name: str) -> str:
        return name


def served_codes() -> list[Code]:
    """What the broker answers, from its own table."""
    stub = cast(Any, _Stub())
    handlers = Handlers(**dict.fromkeys(Handlers.__dataclass_fields__, stub))
    return sorted(map(Code, {**handlers.immediate(), **handlers.deferred()}))


def request_of(code: Code, topic: str, group: str, *, position: int = 0) -> tuple[dict[str, str], bytes]:
    """Ext fields and body; fields that a code does not know are passed over by the broker."""
    fields = {
        **{"topic": topic, "group": group, "groupName": group, "consumerGroup": group, "producerGroup": group},
        **{"srcGroup": group, "destGroup": group, "compareGroup": group, "clientID": "c1", "clientId": "c1"},
        **{"queueId": "0", "queueOffset": "0", "maxMsgNums": "1", "sysFlag": "5", "commitOffset": "0"},
        **{"suspendTimeoutMillis": "0", "subVersion": "0", "subscription": "*", "timestamp": "-1", "isForce": "true"},
        **{"offset": str(position), "delayLevel": "0", "key": "k", "maxNum": "1", "beginTimestamp": "0"},
        **{"endTimestamp": "9", "defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1", "perm": "6"},
        **{"topicFilterType": "SINGLE_TAG", "order": "false", "readable": "false", "isOrder": "false"},
        **{"statsName": "TOPIC_PUT_NUMS", "statsKey": topic, "index": "0", "count": "1", "msgId": "0" * 32},
        **{"tranStateTableOffset": "0", "commitLogOffset": "0", "commitOrRollback": "8", "recallHandle": "x"},
        **{"defaultTopicQueueNums": "1", "bornTimestamp": "0", "flag": "0", "properties": ""},
        **{"a": group, "b": topic, "c": "TBW102", "d": "1", "e": "0", "f": "0", "g": "0", "h": "0", "i": ""},
        **{"j": "0", "k": "false", "m": "true" if code is Code.SEND_BATCH_MESSAGE else "false"},
        **{"purpose": "everything", "nonce": "1", "watch": "true", "watchId": "1", "waitMillis": "0"},
        **{
            "extraInfo": "0 0 1000 0 0 b 0 0",
            "invisibleTime": "1000",
            "pollTime": "0",
            "bornTime": "0",
            "initMode": "0",
        },
    }
    if code in (Code.SEND_MESSAGE, Code.SEND_REPLY_MESSAGE):
        fields["sysFlag"] = "0"
    if code is Code.INVOKE_BROKER_TO_RESET_OFFSET:
        del fields["offset"]
    return fields, _body(code, topic, group)


def _body(code: Code, topic: str, group: str) -> bytes:
    config = {"groupName": group, "retryQueueNums": 1}
    queues = {"consumerGroup": group, "clientId": "c1", "mqSet": [{"topic": topic, "brokerName": "b", "queueId": 0}]}
    subscription = {"topic": topic, "subString": "*"}
    match code:
        case Code.SEND_BATCH_MESSAGE:
            return encode_batch([BatchItem(b"x", b"")])
        case Code.HEART_BEAT:
            consumers = [{"groupName": group, "subscriptionDataSet": [subscription]}]
            value: Any = {"clientID": "c1", "producerDataSet": [], "consumerDataSet": consumers}
        case Code.LOCK_BATCH_MQ | Code.UNLOCK_BATCH_MQ:
            value = queues
        case Code.UPDATE_AND_CREATE_TOPIC_LIST:
            value = {"topicConfigList": [{"topicName": topic, "readQueueNums": 1, "writeQueueNums": 1, "perm": 6}]}
        case Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP:
            value = config
        case Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST:
            value = {"groupConfigList": [config]}
        case Code.CHECK_CLIENT_CONFIG:
            value = {"clientId": "c1", "group": group, "subscriptionData": subscription}
        case Code.BATCH_ACK_MESSAGE:
            ack = {"c": group, "t": topic, "so": 0, "q": 0, "rq": 1, "pt": 1, "it": 1000, "b": "AQ=="}
            value = {"acks": [ack], "brokerName": "b"}
        case Code.QUERY_QUEUE_RANGES:
            value = {"topics": [topic], "group": group}
        case Code.UPDATE_CONSUMER_OFFSETS:
            value = {"group": group, "topics": {topic: [[0, 0]]}}
        case Code.QUERY_ASSIGNMENT:
            value = {"topic": topic, "consumerGroup": group, "clientId": "c1"}
        case Code.SET_MESSAGE_REQUEST_MODE:
            value = {"topic": topic, "consumerGroup": group, "mode": "PULL"}
        case Code.QUERY_MEMBER_TABLES:
            value = {"digests": dict.fromkeys(map(int, SMALL_TABLES), "")}
        case Code.UPDATE_BROKER_CONFIG:
            return b"longPollingEnable=true"
        case _:
            return b"x"
    return json.dumps(value).encode()
