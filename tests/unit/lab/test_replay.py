"""Replays of a listener: which messages, what a handler makes of them, and that nothing on the broker changes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from pyromq import Admin, Message, Producer, PushConsumer, ReceivedMessage, aio, lab
from pyromq.errors import BodyError, ConfigError, NotFoundError, TopicNotFoundError
from pyromq.lab.moments import moment_ms
from pyromq.model.queue import QueueId
from pyromq.results import ConsumeStatus
from pyromq.testing import LoopbackBroker

pytestmark = pytest.mark.usefixtures("quiet")


@dataclass
class Order:
    id: int
    amount: float = 0.0


@pytest.fixture
def broker() -> Iterator[LoopbackBroker]:
    with LoopbackBroker(virtual_time=True, sockets=False) as running:
        yield running


def send(broker: LoopbackBroker, *numbers: int, topic: str = "orders") -> None:
    with Producer(broker.nameserver, group="shop") as producer:
        for number in numbers:
            body = b'{"id": %d, "amount": 9.9}' % number
            producer.send(Message(topic, body, keys=str(number)), queue=QueueId(topic, "broker-a", 0))


def with_topic(broker: LoopbackBroker, topic: str = "orders", queues: int = 1) -> None:
    with Admin(broker.nameserver) as admin:
        admin.topics.create(topic, queues=queues)


def bodies(replayed: lab.ReplayReport) -> list[bytes]:
    return [outcome.message.body for outcome in replayed]


def refuses_two(message: ReceivedMessage) -> str:
    if message.keys == ("2",):
        raise ValueError("no two")
    return f"did {message.keys[0]}"


def bill(message: ReceivedMessage) -> None:
    """A listener of a consumer: what it returns would be a verdict."""
    refuses_two(message)


def everything_of(broker: LoopbackBroker) -> tuple[Any, ...]:
    tables = broker.broker.parts.tables
    members = {group.name for group in tables.members.consumer_groups()}
    return broker.ledger(), broker.broker.store.end_position, dict(tables.progress.everything().offset_table), members


def test_a_handler_gets_every_message_and_its_outcomes_are_kept(broker: LoopbackBroker) -> None:
    with_topic(broker)
    send(broker, 1, 2, 3)
    run = lab.replay("orders", nameserver=broker.nameserver).run(refuses_two)
    assert [outcome.kind for outcome in run] == ["ok", "failed", "ok"]
    assert [outcome.result for outcome in run] == ["did 1", None, "did 3"]
    assert isinstance(run[1].error, ValueError) and "refuses_two" in run[1].traceback
    assert "pyromq/lab" not in run[1].traceback
    assert [outcome.message.keys for outcome in run.failed] == [("2",)]
    assert len(run.ok) == 2 and not run.is_cut and len(run[1:]) == 2
    assert len(run.filter(lambda outcome: outcome.elapsed_ms < 0)) == 0
    assert run[0].is_ok and run[0].traceback == ""


def test_nothing_on_the_broker_changes(broker: LoopbackBroker) -> None:
    with_topic(broker)
    send(broker, 1, 2)
    with PushConsumer(
        broker.nameserver, group="billing", listener=bill, topics="orders", start="earliest", attempts_max=1
    ):
        broker.advance(minutes=1)
        before = everything_of(broker)
        for _ in range(2):
            lab.replay("orders", nameserver=broker.nameserver).run(refuses_two)
            lab.replay(dead_letters="billing", nameserver=broker.nameserver).run(refuses_two)
            lab.replay("orders", key="2", nameserver=broker.nameserver).run(refuses_two)
        assert everything_of(broker) == before


def test_the_record_of_groups_stands_beside_the_outcome(broker: LoopbackBroker) -> None:
    with_topic(broker)
    send(broker, 1, 2)
    other = PushConsumer(
        broker.nameserver, group="mail", listener=lambda message: None, topics="orders", start="earliest"
    )
    with (
        other,
        PushConsumer(
            broker.nameserver, group="billing", listener=bill, topics="orders", start="earliest", attempts_max=1
        ),
    ):
        broker.advance(minutes=5)
        run = lab.replay("orders", group="billing", nameserver=broker.nameserver).run(lambda message: None)
        assert [outcome.recorded_text for outcome in run] == ["billing: consumed", "billing: dead letter"]
        assert bodies(run.surprising) == [run[1].message.body]  # it works now, and did not then
        every = lab.replay("orders", nameserver=broker.nameserver).run(lambda message: None)
        assert [len(outcome.recorded) for outcome in every] == [2, 2]


def test_messages_are_chosen_by_key_id_offsets_and_time(broker: LoopbackBroker) -> None:
    with_topic(broker)
    send(broker, 1)
    broker.advance(hours=3)
    began = datetime.fromtimestamp(broker.now_ms() / 1000, UTC)
    send(broker, 2, 3)

    def ids(**choice: Any) -> list[str]:
        replay = lab.replay("orders", nameserver=broker.nameserver, **choice)
        return [message.keys[0] for message in replay.messages()]

    assert ids() == ["1", "2", "3"]
    assert ids(key="2") == ["2"] and ids(key="9") == []
    queue = QueueId("orders", "broker-a", 0)
    assert ids(queue=queue, offsets=(1, 3)) == ["2", "3"] and ids(queue=queue, offsets=(1, 1)) == []
    assert ids(since="2h ago") == ids(since=began) == ids(since=timedelta(hours=2)) == ["2", "3"]
    assert ids(until="2h ago") == ids(since=0, until=broker.now_ms() - 7_200_000) == ["1"]
    assert ids(key="1", since="1h ago") == []
    (message,) = broker.sent("orders")[:1]
    assert ids(message_id=message.message_id) == ["1"]
    with pytest.raises(NotFoundError):
        ids(message_id="7F00000148A358C2D9B647B760000000")
    with pytest.raises(TopicNotFoundError):
        lab.replay("nothing", nameserver=broker.nameserver).run(print)


def test_messages_of_several_queues_come_in_the_order_in_which_they_were_stored(broker: LoopbackBroker) -> None:
    with_topic(broker, queues=3)
    with Producer(broker.nameserver, group="shop") as producer:
        for number in range(9):
            producer.send(Message("orders", b"%d" % number), queue=QueueId("orders", "broker-a", number % 3))
    run = lab.replay("orders", nameserver=broker.nameserver, limit=5).run(lambda message: None)
    assert bodies(run) == [b"0", b"1", b"2", b"3", b"4"]
    assert run.is_cut and "There are more: limit=5 is reached." in str(run)
    assert not lab.replay("orders", nameserver=broker.nameserver, limit=9).run(print).is_cut


def test_dead_letters_come_as_their_group_got_them(broker: LoopbackBroker) -> None:
    with_topic(broker)
    send(broker, 1, 2)
    with PushConsumer(
        broker.nameserver, group="billing", listener=bill, topics="orders", start="earliest", attempts_max=1
    ):
        broker.advance(minutes=5)
    topics: list[str] = []
    run = lab.replay(dead_letters="billing", nameserver=broker.nameserver).run(
        lambda message: topics.append(message.topic)
    )
    assert (topics, run[0].message.keys) == (["orders"], ("2",))
    assert run[0].recorded_text == "billing: dead letter"
    assert len(lab.replay("others", dead_letters="billing", nameserver=broker.nameserver).messages()) == 0
    assert len(lab.replay(dead_letters="nobody", nameserver=broker.nameserver).run(print)) == 0


def test_handlers_may_be_typed_coroutines_and_want_more(broker: LoopbackBroker) -> None:
    with_topic(broker)
    send(broker, 1)
    replay = lab.replay("orders", nameserver=broker.nameserver)

    async def bill(order: Order, message: ReceivedMessage, *, rate: float, note: str = "paid") -> Any:
        await asyncio.sleep(0)
        return order.amount * rate, message.keys, note

    class Biller:
        def __call__(self, order: dict[str, Any]) -> Any:
            return order["id"]

    assert replay.run(bill, rate=2.0)[0].result == (19.8, ("1",), "paid")
    assert replay.run(Biller())[0].result == 1
    assert replay.run(lambda body: body.keys)[0].result == ("1",)
    got: list[Any] = []
    replay.run(got.append)
    assert got[0].keys == ("1",)

    def text(body: str, message: Any) -> str:
        return body[:5] + message.topic

    assert replay.run(text)[0].result == '{"id"orders'
    with pytest.raises(ConfigError, match=r"bill wants 'rate': hand it in, run\(.*bill, rate=…\)"):
        replay.run(bill)
    with pytest.raises(ConfigError, match="no parameter more"):
        replay.run(refuses_two, more=1)
    with pytest.raises(ConfigError, match="takes nothing"):
        replay.run(lambda: None)
    with pytest.raises(ConfigError, match="not int"):
        replay.run(3)  # type: ignore[arg-type]


def test_a_body_that_does_not_decode_is_an_outcome(broker: LoopbackBroker) -> None:
    with Producer(broker.nameserver, group="shop") as producer:
        producer.send(Message("orders", b"{"))

    def bill(order: Order) -> None:
        raise AssertionError("never called")

    (outcome,) = lab.replay("orders", nameserver=broker.nameserver).run(bill)
    assert isinstance(outcome.error, BodyError)


def test_a_verdict_counts_and_other_results_do_not(broker: LoopbackBroker) -> None:
    with_topic(broker)
    send(broker, 1)
    replay = lab.replay("orders", nameserver=broker.nameserver)
    assert replay.run(lambda message: ConsumeStatus.RETRY)[0].kind == "later"
    assert replay.run(lambda message: ConsumeStatus.SUCCESS)[0].kind == "ok"
    assert replay.run(lambda message: False)[0].kind == "ok"


def test_ctrl_c_in_a_handler_ends_the_replay(broker: LoopbackBroker) -> None:
    with_topic(broker)
    send(broker, 1)

    def interrupted(message: ReceivedMessage) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lab.replay("orders", nameserver=broker.nameserver).run(interrupted)


def test_two_handlers_are_compared_over_the_same_messages(broker: LoopbackBroker) -> None:
    with_topic(broker)
    send(broker, 1, 2, 3)
    run = lab.replay("orders", nameserver=broker.nameserver).run(refuses_two)
    send(broker, 4)

    def refuses_three(message: ReceivedMessage, limit: str) -> str:
        if message.keys == (limit,):
            raise KeyError(limit)
        return f"did {message.keys[0]}"

    both = run.compare(refuses_three, limit="3")
    assert len(both) == 3 and [pair.now.message.keys[0] for pair in both.changed] == ["2", "3"]
    assert len(both.fixed) == len(both.broken) == 1 and both[0].is_changed is False
    assert "2 changed, 1 fixed, 1 broken" in str(both) and "failed ValueError: no two" in repr(both)
    assert "<td>failed KeyError" in both._repr_html_() and len(both[:2]) == 2


def test_reports_are_tables_for_terminals_and_notebooks(broker: LoopbackBroker) -> None:
    with Producer(broker.nameserver, group="shop") as producer:
        producer.send(Message("orders", "<b>größe</b>\n".encode() * 9, keys="k1"))
    run = lab.replay("orders", key="k1", nameserver=broker.nameserver).run(lambda message: "x" * 500)
    text, html = repr(run), run._repr_html_()
    assert text.startswith("1 message of orders (key='k1') through ") and text.splitlines()[0].endswith(": 1 ok")
    assert all(len(line) < 400 for line in text.splitlines()) and len(text.splitlines()) == 4
    assert "<b>" not in html and "&lt;b&gt;größe" in html
    empty = lab.replay("orders", key="no", nameserver=broker.nameserver).run(print)
    assert str(empty).startswith("0 messages of orders (key='no') through print: none")


async def replay_on_the_loop() -> None:
    async with LoopbackBroker(virtual_time=True, sockets=False) as broker:
        async with aio.Producer(broker.nameserver, group="shop") as producer:
            await producer.send(Message("orders", b"1", keys="1"))
        replay = lab.replay("orders", nameserver=broker.nameserver)

        async def coroutine(message: ReceivedMessage) -> str:
            await asyncio.sleep(3_600)  # of virtual time
            return "slept"

        run = await replay.run_async(coroutine)
        assert run[0].result == "slept"
        both = await run.compare_async(lambda message: "at once")
        assert both[0].now.result == "at once" and len(both.changed) == 1


def test_replays_run_on_a_loop() -> None:
    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
        runner.run(replay_on_the_loop())


def test_a_coroutine_is_replayed_where_a_loop_runs_already(broker: LoopbackBroker) -> None:
    """As in a notebook."""
    with_topic(broker)
    send(broker, 1)

    async def bill(message: ReceivedMessage) -> str:
        return "billed"

    async def cell() -> lab.ReplayReport:
        return lab.replay("orders", nameserver=broker.nameserver).run(bill)

    assert asyncio.run(cell())[0].result == "billed"


def test_choices_that_cannot_be_meant_are_told() -> None:
    for choice, text in (
        ({"key": "1", "message_id": "2"}, "key and message_id: messages are chosen by one of them"),
        ({"offsets": (1, 2)}, "offsets are those of a queue"),
        ({"queue": QueueId("orders", "broker-a", 0), "offsets": (3, 2)}, "no range"),
        ({"limit": 0}, "limit must be at least 1"),
    ):
        with pytest.raises(ConfigError, match=text):
            lab.replay("orders", **choice)  # type: ignore[arg-type]


def test_moments_are_what_people_write() -> None:
    now_ms = 1_700_000_000_000
    assert moment_ms("since", "now", now_ms) == now_ms
    assert moment_ms("since", "90 s ago", now_ms) == moment_ms("since", "90s", now_ms) == now_ms - 90_000
    assert moment_ms("since", "2d ago", now_ms) == now_ms - 2 * 86_400_000
    assert moment_ms("since", "2023-11-14T22:13:20+00:00", 0) == now_ms
    assert moment_ms("since", datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC), 0) == now_ms
    assert moment_ms("since", 17, 0) == 17
    for wrong in ("soon", "", "2 weeks", 1.5, None, True):
        with pytest.raises(ConfigError, match=r"since=.* is not a time; write '2h ago'"):
            moment_ms("since", wrong, now_ms)  # type: ignore[arg-type]
    for naive in ("2023-11-14T22:13:20", datetime(2023, 11, 14)):  # noqa: DTZ001
        with pytest.raises(ConfigError, match="has no time zone"):
            moment_ms("until", naive, now_ms)
