"""``consumerStatus`` in the sections of RocketMQ, from what a member says."""

from __future__ import annotations

import pytest

from pyromq.cli.mqadmin.consumer_status import running_info_lines
from pyromq.client.consumer.base.consume_stats import TopicRates
from pyromq.client.consumer.base.running_info import QueueInfo, RunningInfo, encode_running_info
from pyromq.errors import RemoteProtocolError
from pyromq.model.queue import QueueId
from pyromq.wire.json.heartbeat import ConsumeType, Subscription


def test_all_sections_are_there_with_numbers_and_java_words() -> None:
    body = encode_running_info(
        RunningInfo(
            name_servers="n:9876",
            consume_type=ConsumeType.CONSUME_PASSIVELY,
            orderly=False,
            threads=8,
            client_version="V5_3_3",
            started_ms=1,
            subscriptions=[Subscription(topic="orders", sub_string="new")],
            queues={QueueId("orders", "broker-a", 2): QueueInfo(commit_offset=41, locked=True)},
            rates={"orders": TopicRates(consume_rt=1.5, consume_ok_tps=20.25, consume_failed_messages=3)},
            stacks="thread one\n  File",
        )
    )
    lines = list(running_info_lines(body))
    text = "\n".join(lines)
    assert [line for line in lines if line.startswith("#Consumer ") and line.endswith("#")] == [
        "#Consumer Properties#",
        "#Consumer Subscription#",
        "#Consumer Offset#",
        "#Consumer MQ Detail#",
        "#Consumer Pop Detail#",
        "#Consumer RT&TPS#",
        "#Consumer jstack#",
    ]
    assert f"001 Topic: {'orders':<40} ClassFilter: {'false':<8} SubExpression: new" in lines
    assert "PROP_CONSUME_TYPE                       : CONSUME_PASSIVELY" in lines
    assert "ProcessQueueInfo [commitOffset=41, " in text and "locked=true" in text
    [rates] = [line for line in lines if line.startswith("orders") and "20.25" in line]
    assert rates.split() == ["orders", "0.00", "0.00", "1.50", "20.25", "0.00", "3"]
    assert lines[-2:] == ["thread one", "  File"]


def test_what_is_no_running_info_is_refused() -> None:
    with pytest.raises(RemoteProtocolError):
        list(running_info_lines(b"no JSON"))
