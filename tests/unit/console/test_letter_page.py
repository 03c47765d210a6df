"""The page of one dead letter: why, the way to its original and its copy, redriving it as it is or edited."""

from __future__ import annotations

import re

import pytest

from pyromq.aio import PushConsumer, ReceivedMessage
from pyromq.console.pages import letter as letter_page
from pyromq.console.views.letter_edits import DiffLine, EditForm, changes, edit_of, form_in, form_of
from pyromq.console.web.visit import BadRequestError
from pyromq.model.property_names import KEYS
from pyromq.operate.jobs.specs import Redrive
from pyromq.operate.resend.edits import EDITED_BYTES_MAX
from tests.unit.console.rig import XSS, ConsoleRig
from tests.unit.console.test_work_pages import bury, on_a_console, send
from tests.unit.received import received

pytestmark = pytest.mark.usefixtures("quiet")


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page waits for its job however slow the machine is."""
    monkeypatch.setattr(letter_page, "_WAIT_S", 60.0)


async def a_letter(rig: ConsoleRig, body: bytes = b'{"id": 42, "price": null}') -> str:
    await bury(rig, body, keys=("order-42",), tags="eu", properties={"region": "north"})
    (letter,) = await rig.admin.dead_letters.list("billing")
    return f"/dead-letters/billing/{letter.offset_message_id}"


def test_a_letter_says_why_and_leads_to_its_original() -> None:
    async def test(rig: ConsoleRig) -> None:
        address = await a_letter(rig)
        (letter,) = await rig.admin.dead_letters.list("billing")
        page = await rig.page(address)
        assert "no such customer" in page and "DeadLetterError" in page
        assert f'href="/messages/orders/{letter.message_id}">Open the original</a>' in page
        assert "billing gave up: dead letter" in page and ">waiting<" in page
        original = await rig.page(f"/messages/orders/{letter.message_id}")
        assert f'href="{address}">Open the dead letter</a>' in original
        assert f'href="{address}">Open the letter</a>' in await rig.page(
            f"/messages/%25DLQ%25billing/{letter.offset_message_id}"
        )
        assert address in await rig.page("/dead-letters/billing")
        assert f"pyromq dlq redrive billing --letter {letter.offset_message_id} " in page, (
            "not by its key: others have it"
        )

    on_a_console(test)


def test_a_letter_is_redriven_and_its_page_says_what_became_of_the_copy() -> None:
    async def test(rig: ConsoleRig) -> None:
        address = await a_letter(rig)
        page = await rig.act(f"{address}/redrive")
        assert "The letter was sent again." in page and ">redriven<" in page
        assert "its copy: waiting" in page and "Redriven as message" in page
        copy = re.search(r'href="(/messages/orders/\w+)">Open the redriven copy', page)
        assert copy is not None
        assert "This message is a redriven copy" in await rig.page(copy[1])
        again = await rig.act(f"{address}/redrive")
        assert "The letter was not sent: it was " in again
        rig.broker.assert_nothing_lost()

    on_a_console(test)


def test_an_edit_is_shown_before_it_is_sent_and_sent_once() -> None:
    async def test(rig: ConsoleRig) -> None:
        address = await a_letter(rig)
        form = {"body": '{"id": 42, "price": 9}', "tags": "eu", "keys": "order-42 mended", "properties": "region=south"}
        preview = await rig.post(f"{address}/edit", form)
        text = re.sub(r"<[^>]+>", "", preview.text)
        assert preview.status_code == 200 and "What changes" in text
        assert "-  &#34;price&#34;: null" in text and "+  &#34;price&#34;: 9" in text
        assert "+mended" in text and "-region=north" in text and "+region=south" in text
        assert (await rig.admin.messages.newest("orders"))[-1].body == b'{"id": 42, "price": null}', (
            "nothing is sent yet"
        )
        page = await rig.act(f"{address}/edit", {**form, "sure": "1"})
        assert "The edited message was sent." in page and ">redriven<" in page
        (job,) = rig.desk.jobs.all()
        assert isinstance(job.spec, Redrive) and job.counts.confirmed == 1 and job.spec.edit is not None
        shown = await rig.page(f"/jobs/{job.id}")
        assert "one edited dead letter of group billing" in shown and ">confirmed<" in shown
        sent = (await rig.admin.messages.newest("orders"))[-1]
        assert (sent.body, sent.keys, sent.get("region")) == (
            b'{"id": 42, "price": 9}',
            ("order-42", "mended"),
            "south",
        )
        assert sent.get("REDRIVEN_FROM") == address.rpartition("/")[2]
        before = len(await rig.admin.messages.newest("orders", 50))
        twice = await rig.act(f"{address}/edit", {**form, "sure": "1"})
        assert "The edited message was not sent: it was redriven before" in twice
        assert len(await rig.admin.messages.newest("orders", 50)) == before

    on_a_console(test)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "Nothing is changed"),
        ({"properties": "no equals sign"}, "a property is a line name=value"),
        ({"properties": f"{KEYS}=x"}, "belong to the system"),
        ({"body": "x" * (EDITED_BYTES_MAX + 1)}, "the body is larger than"),
    ],
)
def test_a_bad_edit_keeps_what_was_written_and_sends_nothing(fields: dict[str, str], said: str) -> None:
    async def test(rig: ConsoleRig) -> None:
        address = await a_letter(rig)
        given = {"body": '{"id": 42, "price": null}', "tags": "eu", "keys": "order-42", "properties": "region=north"}
        answer = await rig.post(f"{address}/edit", {**given, **fields, "sure": "1"})
        assert answer.status_code == 422 and said in answer.text
        assert "order-42" in answer.text and fields.get("properties", "region=north") in answer.text
        (letter,) = await rig.admin.dead_letters.list("billing")
        assert not letter.is_redriven

    on_a_console(test)


def test_a_body_that_is_no_text_can_be_redriven_and_not_edited() -> None:
    async def test(rig: ConsoleRig) -> None:
        address = await a_letter(rig, b"\xff\xfe\x00")
        assert "Edit and send" not in await rig.page(address)
        assert (await rig.get(f"{address}/edit")).status_code == 400

    on_a_console(test)


def test_a_message_that_is_no_letter_of_the_group_is_not_shown_as_one() -> None:
    async def test(rig: ConsoleRig) -> None:
        await a_letter(rig)
        order = (await rig.admin.messages.newest("orders"))[-1]
        assert (await rig.get(f"/dead-letters/billing/{order.offset_message_id}")).status_code == 404
        assert (await rig.get("/dead-letters/billing/nonsense")).status_code == 404

    on_a_console(test)


def test_what_strangers_write_stays_text_on_the_page_of_a_letter() -> None:
    async def test(rig: ConsoleRig) -> None:
        await bury(rig, XSS.encode(), reason=XSS, keys=("k",), tags="t")
        (letter,) = await rig.admin.dead_letters.list("billing")
        for path in ("", "/edit"):
            assert "<script>alert" not in await rig.page(f"/dead-letters/billing/{letter.offset_message_id}{path}")

    on_a_console(test)


def test_a_reader_sees_a_letter_and_sends_nothing() -> None:
    async def test(rig: ConsoleRig) -> None:
        address = await a_letter(rig)
        page = await rig.viewer.page(address)
        assert "no such customer" in page and "Send it again" not in page
        for action in ("redrive", "edit"):
            assert (await rig.viewer.post(f"{address}/{action}", {"sure": "1"})).status_code == 403

    on_a_console(test)


def test_an_edit_is_compared_line_by_line_and_json_as_it_reads_best() -> None:
    before = EditForm(body='{"a":1,"b":2}', tags="t", keys="k", properties="p=1")
    assert changes(before, before) == []
    found = changes(before, EditForm(body='{"a":1,"b":3}', tags="", keys="k", properties="p=1"))
    assert DiffLine("-", '  "b": 2') in found and DiffLine("+", '  "b": 3') in found
    assert [line.text for line in found if line.mark == "@"] == ["body", "tag"]
    with pytest.raises(BadRequestError, match="name=value"):
        edit_of(EditForm(body="", properties="=x"))


def sent_back(form: EditForm) -> dict[str, str]:
    """A form as browsers send it: every line ends with CR and LF."""
    return {name: "\r\n".join(getattr(form, name).splitlines()) for name in EditForm.__struct_fields__}


@pytest.mark.parametrize("body", [b"a\r\nb", b"a\nb", b"a", b""])
def test_lines_that_nobody_edited_end_as_they_did(body: bytes) -> None:
    form = form_of(received(body, keys="k1 k2", tags="t", region="north"))
    assert form is not None
    unchanged = edit_of(form_in(sent_back(form), form))
    assert (unchanged.body, unchanged.keys, unchanged.properties) == (body, ("k1", "k2"), {"region": "north"})
    assert changes(form, form_in(sent_back(form), form)) == []


@pytest.mark.parametrize(
    ("body", "properties"),
    [
        (b"a\r\nb\nc", {}),
        (b"a\rb", {}),
        (b"a", {"note": "1\nsecret=2"}),
        (b"a", {"note": "1\u20282"}),
        (b"a", {"note": " 1"}),
        (b"a", {"a=b": "c"}),
    ],
)
def test_what_a_form_would_change_by_itself_is_not_edited_here(body: bytes, properties: dict[str, str]) -> None:
    assert form_of(received(body, **properties)) is None


def test_letters_of_a_topic_and_of_a_group_with_its_name_are_not_taken_for_each_other() -> None:
    async def test(rig: ConsoleRig) -> None:
        await a_letter(rig)
        await rig.admin.groups.create("orders")
        assert "no such customer" in await rig.page("/topics/orders/dead-letters")
        answer = await rig.get("/dead-letters/orders")
        assert answer.status_code == 200 and "no such customer" not in answer.text

    on_a_console(test)


def test_a_traceback_is_folded_on_the_pages_of_letter_and_message_and_in_the_rows() -> None:
    async def test(rig: ConsoleRig) -> None:
        async def listen(message: ReceivedMessage) -> None:
            raise ValueError(f"{XSS} {message.delivery_attempt}")

        await rig.admin.groups.create("billing")
        await send(rig, b"42")
        consumer = PushConsumer(
            rig.broker.nameserver,
            group="billing",
            listener=listen,
            topics="orders",
            start="earliest",
            attempts_max=1,
            traceback_bytes=2_000,
        )
        async with consumer:
            while not (letters := await rig.admin.dead_letters.list("billing")):
                await rig.broker.advance(seconds=10)
        (letter,) = letters
        page = await rig.page(f"/dead-letters/billing/{letter.offset_message_id}")
        folded = '<details class="traceback"><summary>Traceback</summary><pre>'
        assert page.count(folded) == 3, "why, and each of two attempts"
        assert ", in listen" in page and "<script>alert" not in page
        message = await rig.page(f"/messages/orders/{letter.message_id}")
        assert message.count(folded) == 2 and "<script>alert" not in message
        (row,) = (await rig.get("/api/v1/groups/billing/dead-letters")).json()["letters"]
        assert row["traceback"] == letter.failure.traceback != ""
        explained = (await rig.get(f"/api/v1/topics/orders/messages/{letter.message_id}/story")).json()
        tracebacks = [each["traceback"] for each in explained["explanation"]["groups"][0]["attempts"]]
        assert [each.splitlines()[-1][-1] for each in tracebacks] == ["0", "1"]

    on_a_console(test)
