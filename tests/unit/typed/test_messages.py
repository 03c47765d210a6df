"""Messages of values, and what a way of sending is called with."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from pyromq.errors import MessageRefusedError
from pyromq.model.message import Message
from pyromq.typed import message
from pyromq.typed.messages import NO_VALUE, as_message, as_messages


@dataclass
class Order:
    id: int


def test_a_value_becomes_a_message_that_says_what_it_is() -> None:
    made = message("orders", Order(1), keys="a b", tags="new", properties={"x": "y"}, delay=timedelta(seconds=2))
    properties = {"content_type": "application/json", "schema": "Order", "x": "y"}
    expected = Message("orders", b'{"id":1}', keys=["a", "b"], tags="new", properties=properties, delay_ms=2_000)
    assert made == expected


def test_bytes_say_nothing_of_themselves_unless_told() -> None:
    assert message("orders", b"1") == Message("orders", b"1")
    assert message("orders", b"1", content_type="application/pdf").properties == {"content_type": "application/pdf"}
    assert message("orders", b"1", schema="bill").properties == {"schema": "bill"}


def test_properties_of_the_application_win() -> None:
    made = message("orders", Order(1), properties={"schema": "v2"})
    assert made.properties == {"content_type": "application/json", "schema": "v2"}
    assert message("orders", Order(1), schema="v3").properties["schema"] == "v3"


@pytest.mark.parametrize("value", ["", b""])
def test_an_empty_body_is_refused(value: Any) -> None:
    with pytest.raises(MessageRefusedError, match="empty body"):
        message("orders", value)


def test_mistakes_say_what_to_do() -> None:
    with pytest.raises(TypeError, match="no option 'key'; did you mean 'keys'"):
        message("orders", 1, key="a")  # type: ignore[call-arg]
    with pytest.raises(MessageRefusedError, match="a Message is sent as it is"):
        message("orders", Message("orders", b"1"))
    with pytest.raises(MessageRefusedError, match=r"not dict$"):
        as_message({"a": 1}, NO_VALUE, {})  # type: ignore[arg-type]
    with pytest.raises(MessageRefusedError, match=r"send\('orders', value\) has a value"):
        as_message("orders", NO_VALUE, {})
    with pytest.raises(TypeError, match="a value beside a Message"):
        as_message(Message("orders", b"1"), 3, {})
    with pytest.raises(TypeError, match="tags beside a Message"):
        as_message(Message("orders", b"1"), NO_VALUE, {"tags": "a"})
    with pytest.raises(TypeError, match="no option 'timeot'; did you mean 'timeout'"):
        as_message(Message("orders", b"1"), NO_VALUE, {"timeot": 1})  # type: ignore[typeddict-unknown-key]


def test_several_values_become_several_messages() -> None:
    made = as_messages("orders", (Order(number) for number in range(2)), {"tags": "a"})
    assert [each.body for each in made] == [b'{"id":0}', b'{"id":1}']
    assert {each.tags for each in made} == {"a"}
    for wrong in ("text", b"bytes", {"a": 1}, 3, NO_VALUE):
        with pytest.raises(MessageRefusedError, match="send_batch takes a topic and several values"):
            as_messages("orders", wrong, {})
    with pytest.raises(TypeError, match="values beside messages"):
        as_messages([Message("orders", b"1")], [1], {})


def test_none_is_a_value() -> None:
    assert message("orders", None).body == b"null"
