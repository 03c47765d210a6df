"""Mistakes that people make in their first program: each is refused at once, with an error that says what to do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import pyromq
from pyromq import Message, aio
from pyromq.client.core.options import ClientOptions, SendOptions, TransactionOptions
from pyromq.errors import ClientClosedError, ConfigError, InvalidExpressionError, InvalidNameError, MessageRefusedError
from pyromq.settings import (
    ClientSettings,
    Compression,
    ProducerSettings,
    PullConsumerOptions,
    PullConsumerSettings,
    PushConsumerOptions,
    PushConsumerSettings,
    TransactionProducerSettings,
)
from pyromq.wire.json.heartbeat import ConsumeFromWhere, MessageModel

NAMES = "127.0.0.1:9876"


def listen(message: aio.ReceivedMessage) -> None: ...


async def listen_soon(message: aio.ReceivedMessage) -> None: ...


def push(**given: Any) -> aio.PushConsumer:
    return aio.PushConsumer(NAMES, **{"group": "g", "listener": listen, "topics": "orders", **given})


# --- messages ---


@pytest.mark.parametrize(
    ("body", "advice"),
    [
        ("text", r"bytes, not str; encode it first: text\.encode\(\)"),
        ({"price": 1}, r"bytes, not dict; encode it first: json\.dumps\(value\)\.encode\(\)"),
        ([1], r"bytes, not list; .*json"),
        (None, r"bytes, not NoneType; .*json"),
        (object(), "bytes, not object$"),
        (b"", "an empty body"),
    ],
)
def test_a_body_that_is_not_bytes_is_refused_with_the_way_to_make_it(body: Any, advice: str) -> None:
    with pytest.raises(MessageRefusedError, match=advice):
        Message("orders", body)


@pytest.mark.parametrize(
    ("topic", "reason"),
    [
        ("", "it is blank"),
        (" ", "it is blank"),
        ("my.topic", "only the characters"),
        ("a" * 128, "at most 127"),
        (7, "it must be text, not int"),
        (b"orders", "it must be text, not bytes"),
        (["orders"], "it must be text, not list"),
        (None, "it must be text, not NoneType"),
    ],
)
def test_a_topic_that_no_broker_would_have_is_refused(topic: Any, reason: str) -> None:
    with pytest.raises(InvalidNameError, match=reason):
        Message(topic, b"x")


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"tags": ["new"]}, "tag must be text, not list"),
        ({"tags": "new || paid"}, "a message has one tag"),
        ({"keys": 42}, "keys must be text, or several texts, not int"),
        ({"keys": b"order"}, "not bytes"),
        ({"keys": [42]}, "key must be text, not int"),
        ({"properties": ["a"]}, "properties must be a mapping of texts, not list"),
        ({"properties": {"price": 1}}, "property 'price' must be text, not int"),
        ({"sharding_key": 7}, "sharding key must be text, not int"),
        ({"delay_ms": 1.5}, "delay_ms must be a whole number, not float"),
        ({"delay_ms": timedelta(seconds=1)}, "timedelta; give it as delay="),
        ({"deliver_at_ms": datetime(2030, 1, 1, tzinfo=UTC)}, "datetime; give it as deliver_at="),
        ({"delay_level": -1}, "levels are numbers from 1 on"),
    ],
)
def test_a_field_of_the_wrong_type_is_refused(given: dict[str, Any], reason: str) -> None:
    with pytest.raises(MessageRefusedError, match=reason):
        Message("orders", b"x", **given)


async def test_what_is_sent_is_a_message() -> None:
    async with aio.Producer("127.0.0.1:1", group="g") as producer:
        for send in (producer.send, producer.request, producer.send_oneway):
            with pytest.raises(MessageRefusedError, match=r"a producer sends Message\(topic, body\), not str"):
                await send("orders")  # type: ignore[operator]
        with pytest.raises(MessageRefusedError, match="not dict"):
            producer.send_nowait({})  # type: ignore[arg-type]
        with pytest.raises(MessageRefusedError, match="not bytes"):
            await producer.send(b"42", queue=aio.QueueId("orders", "b", 0))  # type: ignore[arg-type]
        with pytest.raises(MessageRefusedError, match="send_batch takes a list of messages, not Message"):
            await producer.send_batch(Message("orders", b"42"))  # type: ignore[arg-type]
        with pytest.raises(MessageRefusedError, match="not str"):
            await producer.send_batch(["orders"])  # type: ignore[list-item]


# --- groups, addresses, options ---


@pytest.mark.parametrize("make", [aio.Producer, aio.PushConsumer, aio.PullConsumer, pyromq.Producer])
def test_a_group_is_required(make: Callable[..., Any]) -> None:
    with pytest.raises(TypeError, match="required keyword-only argument: 'group'"):
        make(NAMES)


@pytest.mark.parametrize(
    ("group", "reason"),
    [
        ("", "it is blank"),
        ("my group", "only the characters"),
        (7, "it must be text, not int"),
        ("%RETRY%billing", "use the name without it"),
        ("%DLQ%billing", "use the name without it"),
        ("CID_RMQ_SYS_TRANS", "groups of the system"),
    ],
)
def test_a_group_that_brokers_would_not_have_is_refused(group: Any, reason: str) -> None:
    for make in (aio.Producer, aio.PullConsumer, pyromq.Producer):
        with pytest.raises(InvalidNameError, match=reason):
            make(NAMES, group=group)
    with pytest.raises(InvalidNameError, match=reason):
        push(group=group)


@pytest.mark.parametrize(
    ("nameservers", "reason"),
    [
        ("localhost", "'localhost' is not an address; write host:port"),
        ("localhost:port", "is not an address"),
        ("localhost:99999", "is not an address"),
        (9876, "nameservers must be text such as"),
        ([9876], "nameservers must be text such as"),
        ("ftp://host", "not the URL of an address server"),
    ],
)
def test_an_address_that_is_none_is_refused(nameservers: Any, reason: str) -> None:
    for make in (aio.Admin, pyromq.Admin, aio.Client, pyromq.Client):
        with pytest.raises(ConfigError, match=reason):
            make(nameservers)


def test_an_unknown_option_is_refused_with_the_likely_one() -> None:
    with pytest.raises(TypeError, match=r"PushConsumer\(\) has no option 'thread'; did you mean 'threads'\?"):
        push(thread=8)
    with pytest.raises(TypeError, match=r"Producer\(\) has no option 'retry'; did you mean 'retries'\?"):
        aio.Producer(NAMES, group="g", retry=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"settings=PushConsumerSettings\(rest_ms=…\)"):
        push(rest_ms=8)
    with pytest.raises(TypeError, match=r"client_settings=ClientSettings\(heartbeat_ms=…\)"):
        pyromq.Admin(NAMES, heartbeat_ms=8)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"TransactionProducer\(\) has no option 'xyz'; there are .*confirm"):
        pyromq.TransactionProducer(NAMES, group="g", topics="t", check=listen, xyz=1)  # type: ignore[call-arg, arg-type]


@pytest.mark.parametrize(
    ("options", "settings", "others"),
    [
        (
            PushConsumerOptions,
            PushConsumerSettings,
            {"batch_listener", "hooks", "trace", "consume_timeout", "invisible", "on_assigned", "on_revoked"},
        ),
        (PullConsumerOptions, PullConsumerSettings, {"hooks", "poll_timeout", "on_assigned", "on_revoked"}),
        (TransactionOptions, TransactionProducerSettings, {"hooks", "trace", "timeout"}),
        (SendOptions, ProducerSettings, {"hooks", "trace", "timeout"}),
    ],
)
def test_every_option_is_a_setting_or_has_a_meaning_of_its_own(options: Any, settings: Any, others: set[str]) -> None:
    own = options.__optional_keys__ - ClientOptions.__optional_keys__
    assert own - others <= set(settings.__dataclass_fields__)


def test_an_option_wins_over_the_settings_beside_it_and_none_leaves_them() -> None:
    ours = PushConsumerSettings(threads=3, orderly=True, start="earliest")
    made = push(settings=ours, threads=8, orderly=None, start=None)
    assert (made.settings.threads, made.settings.orderly, made.settings.start) == (8, True, "earliest")
    sends = aio.Producer(NAMES, group="g", retries=0, timeout_ms=None, settings=ProducerSettings(timeout_ms=9))
    assert (sends.settings.retries, sends.settings.timeout_ms) == (0, 9)
    spaced = aio.Producer(NAMES, group="g", namespace="ns", client_settings=ClientSettings(instance_name="one"))
    assert (spaced.client.settings.namespace, spaced.client.settings.instance_name) == ("ns", "one")
    assert spaced.client.settings.nameservers == (NAMES,)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"threads": "8"}, "threads must be a whole number, not '8'"),
        ({"threads": 0}, "threads must be 1 to 1000, not 0"),
        ({"threads": True}, "whole number, not True"),
        ({"attempts_max": 1.5}, "attempts_max must be a whole number"),
        ({"orderly": "yes"}, "orderly must be True or False, not 'yes'"),
        ({"broadcast": 1}, "broadcast must be True or False"),
        ({"batch_max": 2}, "batch_max is for a batch_listener"),
        ({"settings": ProducerSettings()}, "settings must be PushConsumerSettings, not ProducerSettings"),
        ({"client_settings": PushConsumerSettings()}, "client_settings must be ClientSettings"),
    ],
)
def test_a_value_that_cannot_work_is_refused(given: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        push(**given)


def test_a_producer_refuses_values_that_cannot_work() -> None:
    with pytest.raises(ConfigError, match="retries must be a whole number, not '3'"):
        aio.Producer(NAMES, group="g", retries="3")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="timeout_ms must be positive, not 0"):
        aio.Producer(NAMES, group="g", timeout_ms=0)
    with pytest.raises(ConfigError, match=r"compression must be one of Compression\.NONE, .* not 'zlib'"):
        aio.Producer(NAMES, group="g", compression="zlib")  # type: ignore[arg-type]
    assert aio.Producer(NAMES, group="g", compression=Compression.NONE).settings.compression is Compression.NONE


def test_a_shared_client_has_its_own_address_and_face() -> None:
    shared = aio.Client(NAMES)
    assert aio.Producer(group="g", client=shared).client is shared
    with pytest.raises(ConfigError, match="nameservers given beside client"):
        aio.Producer(NAMES, group="g", client=shared)
    with pytest.raises(ConfigError, match="namespace, client_settings given beside client"):
        aio.Producer(group="g", client=shared, namespace="a", client_settings=ClientSettings())
    with pytest.raises(ConfigError, match=r"client must be a pyromq\.Client, not pyromq\.client\.core\.client\.Client"):
        pyromq.Producer(group="g", client=shared)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="a Client of the same module"):
        aio.Producer(group="g", client=pyromq.Client(NAMES))  # type: ignore[arg-type]


# --- consumers ---


@pytest.mark.parametrize(
    ("start", "reason"),
    [
        ("first", "start='first': write 'earliest', 'latest' or a datetime"),
        (0, "start=0: write"),
        (datetime(2026, 1, 1), "start=2026-01-01 00:00:00 has no time zone"),  # noqa: DTZ001
    ],
)
def test_a_start_that_means_nothing_is_refused(start: Any, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        push(start=start)


def test_a_start_is_what_rocketmq_calls_consume_from_where() -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    found = [PushConsumerSettings(start=start) for start in ("earliest", "latest", moment)]  # type: ignore[arg-type]
    assert [settings.from_where for settings in found] == [
        ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
        ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
        ConsumeFromWhere.CONSUME_FROM_TIMESTAMP,
    ]
    assert found[2].from_ms == int(moment.timestamp() * 1000)
    assert PushConsumerSettings(broadcast=True).model is MessageModel.BROADCASTING
    assert PushConsumerSettings().model is MessageModel.CLUSTERING
    with pytest.raises(ConfigError, match="orderly and broadcast exclude each other: order needs a queue lock"):
        PushConsumerSettings(orderly=True, broadcast=True)


def test_topics_are_one_several_or_with_tags() -> None:
    assert subscribed("orders") == {"orders": "*"}
    assert subscribed(["a", "b"]) == {"a": "*", "b": "*"}
    assert subscribed({"orders": "new || paid"}) == {"orders": "new || paid"}
    for topics, error in ((7, ConfigError), (["my topic"], InvalidNameError), ({"a": 7}, InvalidExpressionError)):
        with pytest.raises(error):
            push(topics=topics)


def subscribed(topics: Any) -> dict[str, str]:
    wanted = push(topics=topics)._subscriptions.wanted
    return {topic: each.sub_string for topic, each in wanted.items() if not topic.startswith("%RETRY%")}


@pytest.mark.parametrize(
    ("listener", "reason"),
    [
        (None, "a push consumer needs listener="),
        ("bill", "listener must be a function or a coroutine function, not 'bill'"),
        (lambda: None, r"called with a message alone; .*<lambda>\(\) does not fit"),
        (lambda message, context: None, r"<lambda>\(message, context\) does not fit"),
        (lambda *, message: None, "does not fit"),
    ],
)
def test_a_listener_that_cannot_be_called_is_refused(listener: Any, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        push(listener=listener)


def test_listeners_of_any_fitting_shape_are_taken() -> None:
    class Bills:
        def take(self, message: Any) -> None: ...

        def __call__(self, message: Any, *, dry: bool = False) -> None: ...

    for fitting in (listen, listen_soon, print, list[Any]().append, Bills(), Bills().take, lambda *messages: None):
        push(listener=fitting)
    with pytest.raises(ConfigError, match="either a listener or a batch_listener, not both"):
        push(batch_listener=listen)


def test_a_coroutine_is_for_the_asyncio_face() -> None:
    with pytest.raises(ConfigError, match=r"use pyromq\.aio\.PushConsumer for async def"):
        pyromq.PushConsumer(NAMES, group="g", listener=listen_soon, topics="orders")


def test_a_check_that_cannot_be_called_is_refused() -> None:
    for make in (aio.TransactionProducer, pyromq.TransactionProducer):
        with pytest.raises(ConfigError, match=r"check is called with a message alone"):
            make(NAMES, group="g", topics="t", check=lambda: None)  # type: ignore[misc, arg-type]


# --- life ---


async def test_what_is_not_open_or_closed_says_so() -> None:
    producer = aio.Producer(NAMES, group="g")
    with pytest.raises(ClientClosedError, match="the Producer is not open: use it inside async with"):
        await producer.send(Message("orders", b"x"))
    async with producer:
        pass
    with pytest.raises(ClientClosedError, match="the Producer was closed; make a new one"):
        await producer.send(Message("orders", b"x"))
    with pytest.raises(ClientClosedError, match="cannot be opened twice"):
        await producer.open()
    reader = aio.PullConsumer(NAMES, group="g", topics="orders")
    with pytest.raises(ClientClosedError, match="the PullConsumer is not open"):
        await reader.poll()


def test_sync_clients_say_so_too() -> None:
    producer = pyromq.Producer(NAMES, group="g")
    with pytest.raises(ClientClosedError, match=r"the Producer is not open: use it inside with, or call open\(\)"):
        producer.send(Message("orders", b"x"))
    with producer:
        pass
    with pytest.raises(ClientClosedError, match="the Producer was closed; make a new one"):
        producer.send(Message("orders", b"x"))


async def test_a_consumer_without_topics_is_not_opened() -> None:
    with pytest.raises(ConfigError, match=r"no topic is subscribed: say topics=… or call subscribe\(\)"):
        await push(topics=()).run()
    async with aio.PullConsumer(NAMES, group="g") as reader:
        with pytest.raises(ConfigError, match=r"no topic is subscribed: .* or assign\(\)"):
            await reader.poll()


async def test_one_client_is_one_member_of_a_group() -> None:
    async with aio.Client("127.0.0.1:1") as shared:
        one = aio.PushConsumer(group="g", listener=listen, topics="orders", client=shared)
        two = aio.PushConsumer(group="g", listener=listen, topics="orders", client=shared)
        async with one:
            with pytest.raises(ConfigError, match="this client is a consumer in group g already; use another client"):
                await two.open()


# --- run ---


async def test_run_ends_when_the_consumer_is_closed_elsewhere() -> None:
    consumer = aio.PushConsumer("127.0.0.1:1", group="g", listener=listen, topics="orders")
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(consumer.run())
        await asyncio.sleep(0)
        await consumer.close()
    assert running.result() == 0


async def test_run_ends_when_its_time_is_over() -> None:
    consumer = aio.PushConsumer("127.0.0.1:1", group="g", listener=listen, topics="orders")
    assert await consumer.run(messages=5, timeout_ms=1) == 0
    with pytest.raises(ClientClosedError, match="cannot be opened twice"):
        await consumer.run()
