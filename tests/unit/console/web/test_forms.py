"""Forms that come back: nothing that was written is lost, and what is wrong stands beside its field."""

from __future__ import annotations

import re
from html import unescape
from typing import Annotated

import msgspec
import pytest

from pyromq.console.web.formatting import shortened
from pyromq.console.web.forms import SentForm, about_field, form_values
from pyromq.console.web.visit import BadRequestError, FieldError
from pyromq.errors import ConfigError, RequestTimeoutError
from tests.unit.console.rig import XSS, ConsoleRig


class Order(msgspec.Struct):
    count: Annotated[int, msgspec.Meta(ge=1)]
    name: str = ""


def test_a_value_that_does_not_fit_names_its_field() -> None:
    assert form_values({"count": "3"}, Order) == Order(3)
    with pytest.raises(FieldError, match="Expected `int` >= 1") as caught:
        form_values({"count": "0"}, Order)
    assert caught.value.field == "count" and "$." not in str(caught.value)
    with pytest.raises(BadRequestError, match="missing required field"):
        form_values({}, Order)


def test_what_is_refused_because_of_a_field_is_said_of_it_and_trouble_of_servers_is_not() -> None:
    with pytest.raises(FieldError) as caught, about_field("topic"):
        raise ConfigError("that is no name")
    assert (caught.value.field, str(caught.value)) == ("topic", "that is no name")
    with pytest.raises(RequestTimeoutError), about_field("topic"):
        raise RequestTimeoutError("no response")


def test_a_form_that_was_sent_knows_its_values_and_boxes() -> None:
    sent = SentForm((("name", "a"), ("box", "x")), FieldError("name", "too short"))
    assert (sent.value("name", "b"), sent.value("other", "b")) == ("a", "b")
    assert (sent.is_ticked("box", "x", False), sent.is_ticked("box", "y", True)) == (True, False)
    assert (sent.error_of("name"), sent.error_of("box")) == ("too short", "")
    assert SentForm().is_ticked("box", "y", True) and SentForm().problem is None


async def test_a_bad_topic_name_loses_nothing_that_was_written() -> None:
    async with ConsoleRig() as rig:
        fields = {"topic": XSS, "write_queues": 3, "read_queues": 5, "message_type": "FIFO", "writable": "on"}
        response = await rig.post("/topics/new", fields)
        assert response.status_code == 422
        page = response.text
        (name,) = re.findall(r'<input id="f-topic"[^>]*>', page)
        assert unescape(name).count(XSS) == 1 and 'aria-invalid="true"' in name and "autofocus" in name
        assert re.search(r'class="field-error" id="e-topic"', page) and 'aria-describedby="e-topic h-topic"' in name
        assert re.search(r'id="f-write_queues"[^>]*value="3"', page) and re.search(
            r'id="f-read_queues"[^>]*value="5"', page
        )
        assert '<option value="FIFO" selected>' in page
        assert re.search(r'name="writable" value="on" checked', page)
        assert re.search(r'name="readable" value="on">', page), "a box that was cleared stays clear"
        assert "<script>alert" not in page


async def test_a_wrong_field_among_many_is_the_one_that_is_marked() -> None:
    async with ConsoleRig() as rig:
        await rig.admin.topics.create("orders")
        given = {"body": "hello", "keys": "k", "delay": "soon", "count": "1"}
        response = await rig.post("/topics/orders/send", given)
        assert response.status_code == 400
        assert re.findall(r'class="field-error" id="([^"]*)"', response.text) == ["e-delay"]
        assert ">hello</textarea>" in response.text
        wrong = await rig.post("/topics/orders/send", {**given, "delay": "", "properties": "a=1\nb"})
        assert re.findall(r'class="field-error" id="([^"]*)"', wrong.text) == ["e-properties"]


async def test_a_password_is_not_shown_again() -> None:
    async with ConsoleRig() as rig:
        response = await rig.stranger.post("/login", {"name": "admin", "password": "hunter2 and more"})
        assert "hunter2" not in response.text


async def test_a_form_that_is_out_of_date_is_not_shown_again_with_what_strangers_sent() -> None:
    async with ConsoleRig() as rig:
        rig.operator.csrf = "wrong"
        response = await rig.post("/topics/new", {"topic": "planted"})
        assert response.status_code == 403 and "planted" not in response.text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("billing-1", "billing-1"),
        ("192.168.100.100@123456#7890123456789", "192.168.100.100@12…123456789"),
    ],
)
def test_long_ids_are_cut_in_their_middle(text: str, shown: str) -> None:
    assert shortened(text) == shown and len(shown) <= 28


async def test_actions_at_other_addresses_show_the_page_of_their_form() -> None:
    async with ConsoleRig() as rig:
        wrong = await rig.post("/brokers/broker-a/settings/preview", {"key": "fileReservedTime", "value": "often"})
        assert wrong.status_code == 422
        assert re.findall(r'class="field-error" id="([^"]*)"', wrong.text) == ["e-value"]
        assert 'value="often"' in wrong.text
        token = await rig.post("/access/tokens", {"name": "", "role": "operator"})
        assert re.findall(r'class="field-error" id="([^"]*)"', token.text) == ["e-name"]
        assert '<option value="operator" selected>' in token.text
        copy = await rig.post("/jobs/copy", {"topic": "from-here", "to_topic": "there", "begin": "some day"})
        assert re.findall(r'class="field-error" id="([^"]*)"', copy.text) == ["e-begin"]
        assert 'value="from-here"' in copy.text and 'value="there"' in copy.text
