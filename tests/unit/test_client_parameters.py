"""The table from RocketMQ's client parameters to ours: what it names is there."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from pyromq.client.consumer.base.settings import (
    MemberSettings,
    PullConsumerSettings,
    PushConsumerSettings,
    SimpleConsumerSettings,
)
from pyromq.client.consumer.rules.flow_control import FlowLimits
from pyromq.client.core.settings import ClientSettings, ProducerSettings, TransactionProducerSettings
from pyromq.net import ConnectionSettings

PAGE = Path(__file__).parents[2] / "docs/reference/client-parameters.md"
SETTINGS = {
    kind.__name__: {each.name for each in fields(kind) if each.init}
    for kind in (
        ClientSettings,
        ConnectionSettings,
        FlowLimits,
        MemberSettings,
        ProducerSettings,
        PullConsumerSettings,
        PushConsumerSettings,
        SimpleConsumerSettings,
        TransactionProducerSettings,
    )
}
# of RocketMQ's classes, without what ClientConfig has: a sample that any rewrite of the page must keep
WANTED = (
    "namesrvAddr instanceName pollNameServerInterval heartbeatBrokerInterval sendMsgTimeout retryTimesWhenSendFailed "
    "retryTimesWhenSendAsyncFailed compressMsgBodyOverHowmuch maxMessageSize consumeThreadMin consumeThreadMax "
    "pullThresholdForQueue consumeConcurrentlyMaxSpan consumeMessageBatchMaxSize maxReconsumeTimes consumeTimeout "
    "suspendCurrentQueueTimeMillis autoCommitIntervalMillis pollTimeoutMillis brokerSuspendMaxTimeMillis"
).split()


def rows() -> list[tuple[str, str]]:
    lines = [line.strip("|").split(" | ") for line in PAGE.read_text(encoding="utf-8").splitlines() if line[:1] == "|"]
    return [
        (cells[0].strip(), cells[1].strip()) for cells in lines if len(cells) == 2 and cells[0].strip() != "RocketMQ"
    ]


def test_every_setting_that_the_table_names_exists() -> None:
    named = [match for _, ours in rows() for match in re.findall(r"`(\w+(?:Settings|Limits))\.(\w+)`", ours)]
    assert len(named) > 50
    assert [f"{kind}.{name}" for kind, name in named if name not in SETTINGS[kind]] == []


@pytest.mark.parametrize("name", WANTED)
def test_a_parameter_of_java_is_in_the_table(name: str) -> None:
    assert any(f"`{name}`" in theirs for theirs, _ in rows())


def test_every_row_has_our_setting_or_a_reason() -> None:
    for theirs, ours in rows():
        assert "`" in ours or "not here: " in ours or ours.startswith("as for"), theirs


def test_the_defaults_that_differ_are_those_of_the_code() -> None:
    made = {
        "ClientSettings": ClientSettings(),
        "MemberSettings": MemberSettings(),
        "ProducerSettings": ProducerSettings(),
        "PullConsumerSettings": PullConsumerSettings(),
        "PushConsumerSettings": PushConsumerSettings(),
    }
    _, _, section = PAGE.read_text(encoding="utf-8").partition("## Defaults that differ")
    found = re.findall(r"^\| `(\w+)\.(\w+)` \| (\d+) \|", section, re.MULTILINE)
    assert len(found) >= 7
    assert [(kind, name) for kind, name, value in found if getattr(made[kind], name) != int(value)] == []
