"""Messages that no broker would take are refused where they are made."""

from __future__ import annotations

from typing import Any

import pytest

from pyromq.errors import InvalidNameError, MessageRefusedError
from pyromq.model.message import Message


def test_keys_may_be_a_text_of_words_or_several_words() -> None:
    assert Message("t", b"x", keys="a b").keys == Message("t", b"x", keys=("a", "b")).keys == ("a", "b")


def test_bytes_like_bodies_become_bytes() -> None:
    assert Message("t", bytearray(b"x")).body == Message("t", memoryview(b"x")).body == b"x"  # type: ignore[arg-type]


def test_what_the_caller_does_to_its_properties_later_does_not_matter() -> None:
    properties = {"a": "b"}
    message = Message("t", b"x", properties=properties)
    properties["c"] = "d"
    assert message.properties == {"a": "b"}


@pytest.mark.parametrize("topic", ["", " ", "with blank", "a/b", "a.b", "x" * 128, "ü"])
def test_topics_that_rocketmq_refuses_are_refused(topic: str) -> None:
    with pytest.raises(InvalidNameError):
        Message(topic, b"x")


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"body": b""}, "empty body"),
        ({"body": "text"}, "encode it first"),
        ({"body": 5}, "is bytes, not int"),
        ({"tags": "a || b"}, "one tag"),
        ({"tags": "a\x01"}, "separate properties"),
        ({"keys": ("a b",)}, "blank"),
        ({"keys": ("",)}, "empty"),
        ({"properties": {"": "x"}}, "name is empty"),
        ({"properties": {"x": ""}}, "property 'x' is empty"),
        ({"properties": {"x": 5}}, "must be text, not int"),
        ({"properties": {"x": "a\x02b"}}, "separate properties"),
        ({"properties": {"x": "\ud800"}}, "UTF-8"),
        ({"properties": {"KEYS": "x"}}, "RocketMQ's own"),
        ({"properties": {"UNIQ_KEY": "x"}}, "RocketMQ's own"),
        ({"sharding_key": "a\x01"}, "separate properties"),
        ({"delay_level": 1 << 31}, "numbers from 1 on"),
        ({"delay_level": -1}, "numbers from 1 on"),
        (
            {"delay_level": 3, "sharding_key": "k"},
            "sharding key 'k' beside delay_level: those behind it",
        ),
        ({"delay_ms": 3, "sharding_key": "k"}, "sharding key 'k' beside delay_ms"),
        ({"deliver_at_ms": 3, "sharding_key": "k"}, "sharding key 'k' beside deliver_at_ms"),
        ({"delay_ms": -5}, "is negative"),
        ({"delay_level": 3, "delay_ms": 5}, "one way, not by delay_level and delay_ms"),
        ({"flag": 1 << 31}, "32 bits"),
        ({"priority": -1}, "0 and up, larger is more urgent"),
        ({"priority": 1 << 31}, "0 and up, larger is more urgent"),
        ({"priority": "high"}, "whole number, not str"),
        ({"priority": 0, "sharding_key": "k"}, "priority beside sharding_key"),
        ({"priority": 1, "delay_ms": 5}, "priority beside delay_ms"),
        ({"properties": {"_SYS_MSG_PRIORITY_": "1"}}, "RocketMQ's own"),
    ],
)
def test_messages_that_cannot_be_stored_say_why(fields: dict[str, Any], text: str) -> None:
    with pytest.raises(MessageRefusedError, match=text):
        Message(**{"topic": "t", "body": b"x", **fields})


def test_levels_go_as_far_as_the_broker_has_them() -> None:
    assert Message("t", b"x", delay_level=25).delay_level == 25
