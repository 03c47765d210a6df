"""Pages of groups, messages, dead letters and jobs on a real broker: what is shown, what is done, what stays text."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import quote

import msgspec
import pytest

from pyromq.aio import Message, PushConsumer, ReceivedMessage
from pyromq.console.views.tailing import RATE_MAX, tail_events
from pyromq.console.web.streams import Event
from pyromq.errors import DeadLetterError
from pyromq.operate.jobs.outcomes import Outcome
from pyromq.operate.jobs.record import JobState
from pyromq.operate.reading.search import MessageQuery
from pyromq.testing import LoopbackBroker
from pyromq.wire.codes import RequestCode
from tests.unit.console.rig import XSS, ConsoleRig

pytestmark = pytest.mark.usefixtures("quiet")

Test = Callable[[ConsoleRig], Awaitable[None]]


def on_a_console(test: Test, **settings: Any) -> None:
    async def run() -> None:
        broker = LoopbackBroker(virtual_time=True, sockets=False)
        async with ConsoleRig(broker=broker, **settings) as rig:
            await rig.admin.topics.create("orders", queues=2)
            await test(rig)
            rig.broker.assert_nothing_lost()

    asyncio.run(run())


async def send(rig: ConsoleRig, *bodies: bytes, **options: Any) -> None:
    producer = await rig.producer()
    for body in bodies:
        await producer.send(Message("orders", body, **options))


async def bury(rig: ConsoleRig, *bodies: bytes, reason: str = "no such customer", **options: Any) -> None:
    """Orders that the group billing gives up on at once."""
    await rig.admin.groups.create("billing")
    before = len(await rig.admin.dead_letters.list("billing"))
    await send(rig, *bodies, **options)

    async def listen(message: ReceivedMessage) -> None:
        raise DeadLetterError(reason)

    options = {"group": "billing", "listener": listen, "topics": "orders", "start": "earliest"}
    async with PushConsumer(rig.broker.nameserver, **options):
        while len(await rig.admin.dead_letters.list("billing")) < before + len(bodies):
            await rig.broker.advance(seconds=1)


async def job_of(rig: ConsoleRig, path: str, fields: Any = (), **more: Any) -> str:
    """A form that starts a job: its id, when the job is over."""
    response = await rig.post(path, fields, **more)
    assert response.status_code == 303, response.text[-2000:]
    job_id = response.headers["location"].removeprefix("/jobs/")
    await rig.desk.jobs.wait(job_id)
    return str(job_id)


# --- nothing that others wrote runs --------------------------------------------------------------------------------


def is_clean(page: str) -> bool:
    """No tag of the string survives, and templates do not calculate with it."""
    return "<script>alert" not in page and "<img src=x" not in page and "49</" not in page


def test_what_strangers_write_stays_text_on_every_page() -> None:
    async def test(rig: ConsoleRig) -> None:
        key = XSS.replace(" ", "-")
        await bury(rig, XSS.encode(), reason=XSS, tags="a<b>", keys=[key], properties={"note": XSS, "<i>": XSS})
        [letter] = await rig.admin.dead_letters.list("billing")
        [message] = (await rig.admin.messages.search(MessageQuery(topic="orders"))).messages
        job = await job_of(rig, "/messages/resend", message=XSS)
        for path in (
            f"/messages?topic=orders&text={quote(XSS[:20])}",
            f"/messages?topic={quote(XSS)}&key={quote(key)}&sql={quote(XSS)}&begin={quote(XSS)}",
            f"/messages/orders/{message.offset_message_id}",
            f"/messages/%25DLQ%25billing/{letter.offset_message_id}",
            f"/dead-letters/billing?error={quote(XSS)}&q={quote(XSS)}",
            "/dead-letters/billing",
            "/groups/billing",
            f"/groups?q={quote(XSS)}",
            f"/groups/billing/members?client={quote(XSS)}",
            f"/groups/billing/reset?topic={quote(XSS)}&to=latest&queues={quote(XSS)}",
            f"/tail?topic={quote(XSS)}&sql={quote(XSS)}",
            f"/retries?group={quote(XSS)}",
            f"/jobs/{job}",
            "/jobs",
            f"/jobs/copy?topic={quote(XSS)}",
        ):
            page = await rig.page(path)
            assert is_clean(page), path
        for path in (
            f"/groups/{quote(XSS, safe='')}",
            f"/jobs/{quote(XSS, safe='')}",
            f"/messages/orders/{quote(XSS, safe='')}",
        ):
            response = await rig.get(path)
            assert response.status_code in (404, 405), path
            assert is_clean(response.text), path
        assert "&lt;script&gt;" in await rig.page(f"/messages/orders/{message.offset_message_id}")

    on_a_console(test)


def test_the_id_of_a_client_stays_text() -> None:
    async def test(rig: ConsoleRig) -> None:
        async def listen(message: ReceivedMessage) -> None:
            pass

        strange = "<script>alert(1)</script>"
        consumer = PushConsumer(rig.broker.nameserver, group="billing", listener=listen, instance_name=strange)
        consumer.subscribe("orders", "<b>new</b>")
        async with consumer:
            await rig.broker.advance(seconds=10)
            for path in ("/groups/billing", "/groups", "/groups/billing/reset"):
                page = await rig.page(path)
                assert is_clean(page)
                assert "<b>new</b>" not in page
            [member] = (await rig.admin.groups.describe("billing")).members
            assert strange in member.client_id
            assert "&lt;script&gt;" in await rig.page("/groups/billing")
            assert is_clean(await rig.page("/groups/billing/members", client=member.client_id))

    on_a_console(test)


def test_no_page_names_a_source_outside_and_none_has_inline_scripts_or_styles() -> None:
    async def test(rig: ConsoleRig) -> None:
        await bury(rig, b'{"order": 1}', keys="k")
        [message] = (await rig.admin.messages.search(MessageQuery(topic="orders"))).messages
        paths = ["/groups", "/groups/billing", "/groups/billing/reset", "/groups/billing/delete", "/messages", "/tail"]
        paths += ["/messages?topic=orders", f"/messages/orders/{message.offset_message_id}", "/tail?topic=orders"]
        paths += ["/dead-letters", "/dead-letters/billing", "/retries", "/jobs", "/jobs/copy"]
        for path in paths:
            page = await rig.page(path)
            assert not re.search(r"(src|href|action)=[\"']?(https?:)?//", page), path
            assert not re.search(r"<script(?![^>]*\ssrc=)|<style|\sstyle=|\son[a-z]+=", page), path
            assert "command" in page or path in ("/jobs", "/jobs/copy"), path

    on_a_console(test)


def test_hostile_sizes_are_cut_on_pages_and_whole_in_files() -> None:
    async def test(rig: ConsoleRig) -> None:
        body = b'{"text": "' + b"x" * ((4 << 20) - 64) + b'"}'
        producer = await rig.producer()
        receipt = await producer.send(Message("orders", body, keys="big", properties={"p": "y" * 30_000}))
        page = await rig.page(f"/messages/orders/{receipt.offset_message_id}")
        assert len(page) < 400_000
        assert "Cut" in page
        whole = await rig.get(f"/messages/orders/{receipt.offset_message_id}/body")
        assert whole.content == body
        assert len(await rig.page("/messages", topic="orders")) < 60_000
        line = json.loads((await rig.get("/messages/export", topic="orders")).text)
        assert line["body"].encode() == body

    on_a_console(test)


# --- groups --------------------------------------------------------------------------------------------------------


def test_the_list_of_groups_shows_lag_members_and_dead_letters_and_hides_those_of_the_system() -> None:
    async def test(rig: ConsoleRig) -> None:
        await bury(rig, b"1", b"2")
        await send(rig, b"3", b"4", b"5")
        page = await rig.page("/groups")
        assert "billing" in page
        assert "TOOLS_CONSUMER" not in page
        assert "TOOLS_CONSUMER" in await rig.page("/groups?all=1")
        answer = (await rig.api("GET", "/groups?q=bill")).json()
        [row] = answer["groups"]
        assert (row["lag"], row["members"], row["dead_letters"]) == (3, 0, 2)
        assert "No group matches" in await rig.page("/groups?q=nobody")

    on_a_console(test)


def test_a_broadcasting_group_shows_the_lag_of_its_members_on_its_page_and_none_in_the_list() -> None:
    async def test(rig: ConsoleRig) -> None:
        async def listen(message: ReceivedMessage) -> None:
            pass

        consumer = PushConsumer(rig.broker.nameserver, group="screens", listener=listen, broadcast=True)
        consumer.subscribe("orders")
        async with consumer:
            await send(rig, b"1")
            await rig.broker.advance(seconds=10)
            assert "not available" in await rig.page("/groups")
            page = await rig.page("/groups/screens")
            assert "of its slowest member" in page
            assert "Reset offsets" not in page
            answer = (await rig.api("GET", "/groups/screens")).json()
            assert (answer["lag"], answer["is_broadcasting"], answer["members"][0]["lag"]) == (0, True, 0)
            refused = await rig.page("/groups/screens/reset?topic=orders&to=earliest")
            assert "broadcasts" in refused

    on_a_console(test)


def test_a_stuck_listener_is_shown_with_its_message_and_its_stack() -> None:
    async def test(rig: ConsoleRig) -> None:
        never = asyncio.Event()

        async def wait_for_a_bank_that_is_silent(message: ReceivedMessage) -> None:
            await never.wait()

        consumer = PushConsumer(
            rig.broker.nameserver, group="billing", listener=wait_for_a_bank_that_is_silent, topics="orders"
        )
        async with consumer:
            await send(rig, b"1", keys="order-1")
            await rig.broker.advance(seconds=60)
            page = await rig.page("/groups/billing")
            assert "What holds it up" in page
            assert "order-1" in page
            assert "wait_for_a_bank_that_is_silent" in page
            [member] = (await rig.admin.groups.describe("billing")).members
            stacks = await rig.page(f"/groups/billing/members?client={quote(member.client_id)}")
            assert "wait_for_a_bank_that_is_silent" in stacks
            assert "What its listener is doing" in stacks and "messages of its queues" in stacks
            answer = (await rig.api("GET", "/groups/billing")).json()
            assert answer["members"][0]["lag"] == 1 and answer["members"][0]["listening_since_ms"]
            retries = next(each for each in answer["settings"] if each["setting"] == "retries")
            assert (retries["group"], retries["members"]) == ("16", {"the group's": [member.client_id]})
            head = (await rig.api("GET", "/groups/billing")).json()["queues"]
            [stuck] = [queue for queue in head if queue["lag"]]
            place = {name: stuck[name] for name in ("topic", "broker", "queue", "offset")}
            wrong = await rig.api("POST", "/groups/billing/park", json={**place, "offset": 77})
            assert wrong.status_code == 422, wrong.text
            parked = await rig.api("POST", "/groups/billing/park", json=place)
            assert parked.json()["topic"] == "%DLQ%billing"
            assert (await rig.post("/groups/billing/park", place)).status_code in (404, 422), (
                "it is not the head any more"
            )
            never.set()

    on_a_console(test)


def test_pause_and_resume() -> None:
    async def test(rig: ConsoleRig) -> None:
        await rig.admin.groups.create("billing")
        assert "is paused" in await rig.act("/groups/billing/pause")
        assert "paused" in await rig.page("/groups")
        assert "may consume again" in await rig.act("/groups/billing/resume")
        assert (await rig.api("POST", "/groups/billing/pause")).json()["brokers"]
        assert (await rig.api("POST", "/groups/billing/resume")).json()["brokers"]
        assert (await rig.post("/groups/nobody/pause")).status_code == 404

    on_a_console(test)


def test_a_reset_is_previewed_then_done_and_can_be_undone() -> None:
    async def test(rig: ConsoleRig) -> None:
        await bury(rig, *[b"%d" % number for number in range(10)])
        page = await rig.page("/groups/billing/reset?topic=orders&to=earliest")
        assert "10 delivered again" in page
        assert "--to-offset 0" in page
        moves = re.search(r'name="moves" value="([^"]*)"', page)
        assert moves is not None
        text = moves[1].replace("&#34;", '"').replace("&quot;", '"')
        job = await job_of(rig, "/groups/billing/reset", moves=text)
        record = rig.desk.jobs.get(job)
        assert (record.state, record.counts.confirmed) == (JobState.FINISHED, 2)
        assert (await rig.admin.groups.describe("billing")).lag == 10
        assert "Undo" in await rig.page(f"/jobs/{job}")
        undo = await job_of(rig, f"/jobs/{job}/undo")
        assert rig.desk.jobs.get(undo).counts.confirmed == 2
        assert (await rig.admin.groups.describe("billing")).lag == 0

    on_a_console(test)


@pytest.mark.parametrize(
    ("wish", "offsets"),
    [
        ({"to": "latest"}, {5}),
        ({"to": "offset", "offset": 3}, {3}),
        ({"to": "shift", "by": -2}, {3}),
        ({"to": "shift", "by": -2, "queues": ["broker-a:1"]}, {3}),
        ({"to": "group", "source": "billing"}, {5}),
    ],
)
def test_resets_of_every_kind_are_previewed(wish: dict[str, Any], offsets: set[int]) -> None:
    async def test(rig: ConsoleRig) -> None:
        await bury(rig, *[b"%d" % number for number in range(10)])
        response = await rig.api("POST", "/groups/billing/reset/preview", json={"topic": "orders", **wish})
        assert response.status_code == 200, response.text
        plan = response.json()
        assert {move["new"] for move in plan["moves"]} == offsets
        assert len(plan["moves"]) == (1 if "queues" in wish else 2)
        for queue in plan["queues"]:
            assert queue["delivered_again"] - queue["skipped"] == 5 - queue["new"]
            assert queue["left"] == 5 - queue["new"]

    on_a_console(test)


@pytest.mark.parametrize(
    "wish",
    [
        {"to": "shift"},
        {"to": "time"},
        {"to": "group"},
        {"to": "offset"},
        {"to": "latest", "queues": ["broker-a"]},
        {"to": "latest", "queues": ["broker-z:0"]},
        {"to": "moon"},
    ],
)
def test_a_reset_that_says_too_little_is_refused(wish: dict[str, Any]) -> None:
    async def test(rig: ConsoleRig) -> None:
        await rig.admin.groups.create("billing")
        response = await rig.api("POST", "/groups/billing/reset/preview", json={"topic": "orders", **wish})
        assert response.status_code in (400, 404, 422), response.text
        assert response.json()["detail"]

    on_a_console(test)


def test_deleting_a_group_previews_what_goes_and_needs_its_name() -> None:
    async def test(rig: ConsoleRig) -> None:
        await bury(rig, b"1")
        await send(rig, b"2", b"3")
        page = await rig.page("/groups/billing/delete")
        assert "2 messages" in page
        assert "%DLQ%billing stays" in page
        assert (await rig.post("/groups/billing/delete", name="other")).status_code == 400
        assert "billing" in await rig.admin.groups.names()
        job = await job_of(rig, "/groups/billing/delete", name="billing")
        assert rig.desk.jobs.get(job).counts.confirmed == 1
        assert "billing" not in await rig.admin.groups.names()

    on_a_console(test)


def test_a_reader_looks_and_does_nothing() -> None:
    async def test(rig: ConsoleRig) -> None:
        await bury(rig, b"1")
        for path in ("/groups", "/groups/billing", "/dead-letters/billing", "/messages?topic=orders", "/jobs"):
            assert "Pause</button>" not in await rig.viewer.page(path)
        for path in (
            "/groups/billing/pause",
            "/groups/billing/reset",
            "/groups/billing/delete",
            "/dead-letters/billing/redrive",
            "/messages/resend",
            "/jobs/copy",
            "/jobs/x/cancel",
        ):
            assert (await rig.viewer.post(path)).status_code == 403, path
            assert (await rig.stranger.post(path)).status_code in (401, 403), path

    on_a_console(test)


# --- messages ------------------------------------------------------------------------------------------------------


def test_messages_are_found_and_the_page_says_what_was_scanned() -> None:
    async def test(rig: ConsoleRig) -> None:
        await send(rig, b"one", tags="a", keys="k1", properties={"n": "1"})
        await send(rig, b"two", tags="b", keys="k2", properties={"n": "2"})
        page = await rig.page("/messages?topic=orders")
        assert "read 2 of 2 messages in 2 queues" in page
        assert "not cut" in page
        for query in ("key=k1", "tag=a", "sql=n%3D1", "text=one", "begin=1h+ago&tag=a"):
            page = await rig.page(f"/messages?topic=orders&{query}")
            assert "k1" in page and ">two<" not in page, query
        assert "cut" in await rig.page("/messages?topic=orders&count=1")
        assert "said bad" in await rig.page("/messages?topic=nothing")
        assert "is no time" in await rig.page("/messages?topic=orders&begin=yesterday-ish")

    on_a_console(test)


def test_an_export_is_what_send_takes_back() -> None:
    async def test(rig: ConsoleRig) -> None:
        await send(rig, "grün".encode(), tags="a", keys=["k1", "k2"], properties={"n": "1"}, sharding_key="s")
        await send(rig, bytes(range(256)))
        lines = [json.loads(line) for line in (await rig.get("/messages/export?topic=orders")).text.splitlines()]
        text = next(line for line in lines if "body" in line)
        assert (text["body"], text["keys"], text["tags"]) == ("grün", ["k1", "k2"], "a")
        assert (text["properties"]["n"], text["sharding_key"], text["topic"]) == ("1", "s", "orders")
        assert "body_base64" in next(line for line in lines if "body" not in line)

    on_a_console(test)


def test_whole_messages_come_over_the_api_as_lines() -> None:
    async def test(rig: ConsoleRig) -> None:
        await send(rig, b"1", keys="k")
        answer = (await rig.api("GET", "/topics/orders/messages/lines?key=k")).json()
        assert [(line["body"], line["keys"]) for line in answer["lines"]] == [("1", ["k"])]

    on_a_console(test)


def test_a_message_is_shown_in_every_form_with_its_story() -> None:
    async def test(rig: ConsoleRig) -> None:
        await bury(rig, b'{"order": 42}', keys="k")
        [message] = (await rig.admin.messages.search(MessageQuery(topic="orders"))).messages
        page = await rig.page(f"/messages/orders/{message.message_id}")
        assert "JSON" in page
        assert "7b 22 6f 72 64 65 72" in page
        assert "dead letter" in page
        assert "message explain" in page
        story = (await rig.api("GET", f"/topics/orders/messages/{message.message_id}/story")).json()
        assert [event["kind"] for event in story["timeline"]][:2] == ["sent", "stored"]
        whole = (await rig.api("GET", f"/topics/orders/messages/{message.message_id}")).json()
        assert whole["body"] == '{"order": 42}'
        assert (await rig.get("/messages/orders/0")).status_code == 404

    on_a_console(test)


def test_ticked_messages_are_sent_again_and_one_that_is_gone_is_told() -> None:
    async def test(rig: ConsoleRig) -> None:
        await send(rig, b"1", b"2")
        messages = (await rig.admin.messages.search(MessageQuery(topic="orders"))).messages
        ticked = [("message", message.offset_message_id) for message in messages]
        job = await job_of(rig, "/messages/resend", [*ticked, ("message", "7F00000100002A9F0000000000FFFFFF")])
        counts = rig.desk.jobs.get(job).counts
        assert (counts.confirmed, counts.refused, counts.total) == (2, 1, 3)
        assert "refused" in await rig.page(f"/jobs/{job}")
        assert len((await rig.admin.messages.search(MessageQuery(topic="orders"))).messages) == 4
        assert (await rig.post("/messages/resend")).status_code == 400

    on_a_console(test)


# --- the tail ------------------------------------------------------------------------------------------------------


async def take(events: Any, count: int) -> list[Event]:
    return [await anext(events) for _ in range(count)]


def test_the_tail_brings_new_messages_and_goes_on_where_it_was() -> None:
    async def test(rig: ConsoleRig) -> None:
        await send(rig, b"before")
        events = tail_events(rig.desk, MessageQuery(topic="orders", tag="a"))
        following = asyncio.ensure_future(take(events, 1))
        await rig.broker.advance(seconds=1)
        await send(rig, b"other", tags="b")
        await send(rig, b"mine", tags="a")
        [event] = await following
        assert (event.name, json.loads(event.data)["excerpt"]) == ("message", "mine")
        await events.aclose()
        await send(rig, b"meanwhile", tags="a")
        again = tail_events(rig.desk, MessageQuery(topic="orders", tag="a"), event.id)
        [event] = await take(again, 1)
        assert json.loads(event.data)["excerpt"] == "meanwhile"
        await again.aclose()

    on_a_console(test)


def test_what_is_too_much_for_the_tail_is_dropped_and_counted() -> None:
    async def test(rig: ConsoleRig) -> None:
        count = RATE_MAX + 50
        ends = await rig.admin.offsets.ends("orders")
        place = ",".join(f"{queue.broker}:{queue.number}:{end}" for queue, end in ends.items())
        producer = await rig.producer()
        await producer.send_batch([Message("orders", b"%d" % number) for number in range(count)])
        events = tail_events(rig.desk, MessageQuery(topic="orders"), place)
        first = await anext(events)
        assert first.name == "dropped"
        dropped = json.loads(first.data)["count"]
        shown = await take(events, count - dropped)
        assert {event.name for event in shown} == {"message"}
        assert json.loads(shown[-1].data)["excerpt"] == str(count - 1)
        await events.aclose()

    on_a_console(test)


def test_a_tail_of_a_broker_that_refuses_says_so_and_goes_on() -> None:
    async def test(rig: ConsoleRig) -> None:
        events = tail_events(rig.desk, MessageQuery(topic="orders"))
        following = asyncio.ensure_future(take(events, 2))
        await rig.broker.advance(seconds=1)
        rig.broker.faults.refuse("orders", requests=RequestCode.GET_MAX_OFFSET)
        await rig.broker.advance(seconds=1)
        await send(rig, b"1")
        problem, message = await following
        assert (problem.name, message.name) == ("problem", "message")
        assert "refused by a fault" in problem.data
        await events.aclose()

    on_a_console(test)


# --- dead letters --------------------------------------------------------------------------------------------------


def test_dead_letters_are_grouped_by_error_filtered_exported_and_redriven() -> None:
    async def test(rig: ConsoleRig) -> None:
        await bury(rig, b"1", b"2", keys="k1", reason="no such customer")
        await bury(rig, b"3", tags="vip", keys="k3", reason="no such customer")
        page = await rig.page("/dead-letters")
        assert "billing" in page
        page = await rig.page("/dead-letters/billing")
        assert "By error" in page
        assert "no such customer" in page
        assert "pyromq dlq redrive billing" in page
        vip = await rig.page("/dead-letters/billing?tag=vip")
        assert "1–1 of 1 letter<" in vip
        lines = (await rig.get("/dead-letters/billing/export?tag=vip")).text.splitlines()
        assert [json.loads(line)["topic"] for line in lines] == ["orders"]
        searched = await rig.page("/dead-letters/billing?q=K3")
        assert "all 1 that the filter shows" in searched and 'name="q" value="K3"' in searched
        assert len((await rig.get("/dead-letters/billing/export?q=K3")).text.splitlines()) == 1
        dry = await job_of(rig, "/dead-letters/billing/redrive", which="filter", q="K3", dry_run="1")
        assert rig.desk.jobs.get(dry).counts.not_attempted == 1, "what is searched is a filter, too"
        dry = await job_of(rig, "/dead-letters/billing/redrive", which="filter", tag="vip", dry_run="1")
        assert rig.desk.jobs.get(dry).counts.not_attempted == 1
        job = await job_of(rig, "/dead-letters/billing/redrive", which="filter", tag="vip")
        assert rig.desk.jobs.get(job).counts.confirmed == 1
        await rig.broker.advance(seconds=10)
        assert "redriven" in await rig.page("/dead-letters/billing?tag=vip")
        answer = (await rig.api("GET", "/groups/billing/dead-letters?redriven=no")).json()
        assert answer["total"] == 3  # behind a gap a list does not know; each row of a page does
        assert (await rig.post("/dead-letters/billing/redrive", which="ticked")).status_code == 400
        assert (await rig.get("/dead-letters/nobody")).status_code == 404

    on_a_console(test)


def test_every_ticked_letter_is_told_of_also_when_some_fail() -> None:
    async def test(rig: ConsoleRig) -> None:
        await bury(rig, *[b"%d" % number for number in range(5)])
        letters = await rig.admin.dead_letters.list("billing")
        rig.broker.faults.refuse("orders", skip=1, times=2)
        ticked = [("letter", letter.offset_message_id) for letter in letters]
        job = await job_of(rig, "/dead-letters/billing/redrive", [*ticked, ("which", "ticked")])
        results = list(rig.desk.jobs.results(job))
        assert {result.item for result in results} == {letter.offset_message_id for letter in letters}
        assert sum(result.outcome is Outcome.CONFIRMED for result in results) == 3
        page = await rig.page(f"/jobs/{job}")
        assert "3 confirmed, 2 unchanged (2 refused)" in page
        assert "Do what is left" in page
        again = await job_of(rig, f"/jobs/{job}/continue")
        assert rig.desk.jobs.get(again).counts.confirmed == 2

    on_a_console(test)


def test_retries_that_wait_are_listed_with_their_time() -> None:
    async def test(rig: ConsoleRig) -> None:
        async def listen(message: ReceivedMessage) -> None:
            raise ValueError("not today")

        options: dict[str, Any] = {"group": "billing", "listener": listen, "topics": "orders", "start": "earliest"}
        async with PushConsumer(rig.broker.nameserver, **options):
            await send(rig, b"1", keys="order-1")
            await rig.broker.advance(seconds=2)
            page = await rig.page("/retries")
            assert "order-1" in page
            assert "in " in page
            answer = (await rig.api("GET", "/retries")).json()
            assert answer["retries"][0]["group"] == "billing"
            assert "ValueError" in await rig.page("/retries?group=billing")

    on_a_console(test)


# --- jobs ----------------------------------------------------------------------------------------------------------


def test_a_job_is_steered_by_its_page_and_over_the_api() -> None:
    async def test(rig: ConsoleRig) -> None:
        await bury(rig, *[b"%d" % number for number in range(6)])
        body = {"spec": {"kind": "redrive", "group": "billing"}, "pace": {"canary": 2}}
        started = await rig.api("POST", "/jobs", json=body)
        assert started.status_code == 201, started.text
        job = started.json()["id"]
        while rig.desk.jobs.get(job).state is not JobState.CANARY:
            await rig.broker.settle()
        page = await rig.page(f"/jobs/{job}")
        assert "Go on with the rest" in page
        assert (await rig.api("POST", f"/jobs/{job}/ask/pause")).status_code == 422
        assert (await rig.api("POST", f"/jobs/{job}/ask/go")).status_code == 200
        await rig.desk.jobs.wait(job)
        assert (await rig.api("GET", f"/jobs/{job}")).json()["counts"]["confirmed"] == 6
        results = (await rig.api("GET", f"/jobs/{job}/results?outcome=confirmed&count=4")).json()["results"]
        assert len(results) == 4
        assert len((await rig.get(f"/jobs/{job}/results")).text.splitlines()) == 6
        assert job in await rig.page("/jobs")
        assert (await rig.api("GET", "/jobs/nothing")).status_code == 404
        assert (await rig.api("POST", "/jobs", json={"spec": {"kind": "explode"}})).status_code == 400

    on_a_console(test)


def test_a_copy_is_started_by_its_form() -> None:
    async def test(rig: ConsoleRig) -> None:
        await send(rig, b"1", b"2")
        await rig.admin.topics.create("copies", queues=1)
        job = await job_of(rig, "/jobs/copy", topic="orders", to_topic="copies", rate="0", canary="0")
        assert rig.desk.jobs.get(job).counts.confirmed == 2
        assert (await rig.post("/jobs/copy", topic="", to_topic="copies")).status_code == 400

    on_a_console(test)


def test_a_stream_of_a_job_ends_with_its_end() -> None:
    async def test(rig: ConsoleRig) -> None:
        await bury(rig, b"1", b"2")
        job = (await rig.api("POST", "/jobs", json={"spec": {"kind": "redrive", "group": "billing"}})).json()["id"]
        text = (await rig.api("GET", f"/jobs/{job}/stream")).text
        last = [line for line in text.splitlines() if line.startswith("data: ")][-1]
        assert "event: over" in text
        assert msgspec.json.decode(last.removeprefix("data: "))["counts"]["confirmed"] == 2

    on_a_console(test)
