"""Lists for operators: whose a name is, which rows are asked for, and what brokers of both kinds say."""

from __future__ import annotations

import asyncio

import pytest

from pyromq import Message, aio
from pyromq.errors import BrokerError, MQError
from pyromq.integrations.queue_names import topic_of
from pyromq.model.queue import QueueId
from pyromq.model.system_names import TopicKind, is_system_group, kind_of_topic, names_of_servers
from pyromq.operate.lists import ListQuestion, ListSort, TopicGroupLag
from pyromq.testing import LoopbackBroker
from pyromq.wire.codes import RequestCode
from pyromq.wire.json.bodies import QueueProgress, decode_broker_consume_stats


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("orders", TopicKind.NORMAL),
        ("%RETRY%billing", TopicKind.RETRY),
        ("%DLQ%billing", TopicKind.DEAD_LETTERS),
        ("rmq_sys_wheel_timer", TopicKind.SYSTEM),
        ("RMQ_SYS_TRACE_TOPIC", TopicKind.SYSTEM),
        ("TBW102", TopicKind.SYSTEM),
        ("broker-a", TopicKind.SYSTEM),
        ("c1", TopicKind.SYSTEM),
        ("c1_REPLY_TOPIC", TopicKind.SYSTEM),
        ("c2", TopicKind.NORMAL),
        ("my_REPLY_TOPIC", TopicKind.NORMAL),
        (topic_of("exchange.celery.pidbox"), TopicKind.SYSTEM),
        (topic_of("exchange.reply.celery.pidbox"), TopicKind.SYSTEM),
        (topic_of("exchange.celeryev"), TopicKind.SYSTEM),
        (topic_of("exchange.broadcast_tasks"), TopicKind.NORMAL),
        ("exchange-rates", TopicKind.NORMAL),
    ],
)
def test_names_tell_whose_a_topic_is(name: str, kind: TopicKind) -> None:
    assert kind_of_topic(name, names_of_servers(["c1"], ["broker-a"])) is kind


def test_groups_of_tools_are_the_systems() -> None:
    assert is_system_group("TOOLS_CONSUMER") and is_system_group("PYROMQ_REDRIVE_billing")
    assert is_system_group("CID_RMQ_SYS_TRANS") and is_system_group("CID_ONSAPI_OWNER")
    assert not any(map(is_system_group, ("billing", "CID_billing", "TOOLS_import", "SELF_TEST_of_ours")))


async def test_a_group_with_the_classic_prefix_is_listed_and_examined_like_any_other() -> None:
    async with LoopbackBroker(sockets=False) as broker, aio.Admin(broker.nameserver) as admin:
        await admin.topics.create("orders", queues=1)
        await admin.groups.create("CID_billing")
        async with aio.Producer(broker.nameserver, group="shop") as producer:
            await producer.send(Message("orders", b"1"))
        await admin.offsets.carry_out("CID_billing", await admin.offsets.plan_reset("CID_billing", "orders", to_ms=0))
        assert [row.group for row in (await admin.groups.list()).rows] == ["CID_billing"]
        assert "group CID_billing" in [finding.about for finding in await admin.health.findings()]


@pytest.mark.parametrize(
    ("pattern", "name", "takes"),
    [
        ("", "orders", True),
        ("der", "orders", True),
        ("ord*", "orders", True),
        ("ord*", "my-orders", False),
        ("order?", "orders", True),
        ("Orders", "orders", True),
        ("[", "orders", False),
    ],
)
def test_a_pattern_is_a_part_of_a_name_or_has_stars(pattern: str, name: str, takes: bool) -> None:
    assert ListQuestion(pattern=pattern).takes(name) is takes


@pytest.mark.parametrize(
    "key",
    [
        b'{"brokerName":"b","queueId":1,"topic":"t"}',  # as Java writes it
        b'"{\\"brokerName\\":\\"b\\",\\"queueId\\":1,\\"topic\\":\\"t\\"}"',  # as strict JSON has it
    ],
)
def test_progress_of_all_groups_is_read_in_both_forms(key: bytes) -> None:
    held = b'{"brokerOffset":9,"consumerOffset":4,"lastTimestamp":5,"pullOffset":6}'
    table = b'{"consumeTps":1.5,"offsetTable":{' + key + b":" + held + b"}}"
    body = b'{"brokerAddr":"h:1","consumeStatsList":[{"g":[' + table + b']},{"idle":[]}],"totalDiff":5}'
    told = decode_broker_consume_stats(body)
    (stats,) = told.consume_stats_list[0]["g"]
    expected = QueueProgress(broker_offset=9, consumer_offset=4, pull_offset=6, last_timestamp=5)
    assert stats.offset_table == {QueueId("t", "b", 1): expected} and told.consume_stats_list[1] == {"idle": []}


@pytest.mark.parametrize("body", [b"", b"[]", b"5", b'{"consumeStatsList":5}', b'{"consumeStatsList":[{"g":5}]}', b"{"])
def test_what_is_no_progress_is_refused(body: bytes) -> None:
    with pytest.raises(MQError):
        decode_broker_consume_stats(body)


class Asked(aio.Admin):
    """Counts what it asks brokers, and is refused some of it."""

    def __init__(self, nameserver: str, *refused: RequestCode) -> None:
        super().__init__(nameserver)
        self.codes: list[RequestCode] = []
        inner = self.client.ask

        async def ask(link: object, code: RequestCode, *rest: object, **more: object) -> object:
            self.codes.append(code)
            if code in refused:
                raise BrokerError(code=16, remark="not for you")
            return await inner(link, code, *rest, **more)  # type: ignore[arg-type]

        self.client.ask = ask  # type: ignore[method-assign, assignment]


async def with_topics(broker: LoopbackBroker, count: int) -> None:
    async with aio.Admin(broker.nameserver) as admin, aio.Producer(broker.nameserver, group="shop") as producer:
        for number in range(count):
            await admin.topics.create(f"t{number:03}", queues=1)
        await admin.groups.create("billing")
        await admin.groups.create("mail")
        for _ in range(3):
            await producer.send(Message("t007", b"x"))
        await admin.offsets.carry_out("billing", await admin.offsets.plan_reset("billing", "t007", to_ms=0))


async def test_many_topics_cost_three_requests_and_those_for_the_rows_shown() -> None:
    async with LoopbackBroker(sockets=False) as broker:
        await with_topics(broker, 40)
        async with Asked(broker.nameserver) as admin:
            page = await admin.topics.list(ListQuestion(limit=5))
            assert (len(page.rows), page.found, page.problems) == (5, 40, ())
            bulk = (
                RequestCode.GET_ALL_TOPIC_CONFIG,
                RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
                RequestCode.GET_BROKER_CONSUME_STATS,
            )
            assert [admin.codes.count(code) for code in bulk] == [1, 1, 1]
            assert admin.codes.count(RequestCode.GET_TOPIC_STATS_INFO) == 5 and len(admin.codes) == 8
            admin.codes.clear()
            groups = await admin.groups.list(ListQuestion(limit=1))
            assert (groups.rows[0].group, groups.rows[0].lag, groups.found) == ("billing", 3, 2)
            assert len(admin.codes) == 4, "and the members of one group"


async def test_lag_and_rate_decide_what_comes_first() -> None:
    async with LoopbackBroker(sockets=False) as broker:
        await with_topics(broker, 10)
        async with aio.Admin(broker.nameserver) as admin:
            by_lag = await admin.topics.list(ListQuestion(sort=ListSort.LAG))
            by_rate = await admin.topics.list(ListQuestion(sort=ListSort.RATE, limit=1))
            assert by_lag.rows[0].topic == by_rate.rows[0].topic == "t007"
            assert (by_lag.rows[0].lag, by_lag.rows[0].groups, by_lag.rows[1].lag) == (
                3,
                (TopicGroupLag(group="billing", lag=3),),
                None,
            )
            assert [row.topic for row in by_lag.rows[1:]] == sorted(row.topic for row in by_lag.rows[1:])


async def test_a_list_is_there_also_when_a_broker_does_not_tell_everything() -> None:
    async with LoopbackBroker(sockets=False) as broker:
        await with_topics(broker, 8)
        async with Asked(broker.nameserver, RequestCode.GET_BROKER_CONSUME_STATS) as admin:
            page = await admin.topics.list()
            assert len(page.rows) == 8 and all(row.lag is None and row.get_rate is None for row in page.rows)
            assert "lag and rates of groups are missing" in page.problems[0] and "not for you" in page.problems[0]
            groups = await admin.groups.list()
            assert [(row.group, row.lag, row.members) for row in groups.rows] == [
                ("billing", None, 0),
                ("mail", None, 0),
            ]
        async with Asked(broker.nameserver, RequestCode.GET_TOPIC_STATS_INFO) as admin:
            page = await admin.topics.list()
            assert len(page.rows) == 8 and all(row.put_rate is row.messages is None for row in page.rows)
            assert len(page.problems) == 1 and "some rows are incomplete" in page.problems[0]
            assert admin.codes.count(RequestCode.GET_TOPIC_STATS_INFO) <= 32, "the others are not asked in vain"
        async with Asked(broker.nameserver, RequestCode.GET_ALL_TOPIC_CONFIG) as admin:
            with pytest.raises(BrokerError, match="not for you"):
                await admin.topics.list()


async def test_a_sweep_is_shared_by_those_whom_it_is_new_enough() -> None:
    async with LoopbackBroker(sockets=False) as broker:
        await with_topics(broker, 3)
        async with Asked(broker.nameserver) as admin:
            shared = ListQuestion(limit=1, max_age_ms=60_000)
            await asyncio.gather(admin.topics.list(shared), admin.groups.list(shared))
            assert admin.codes.count(RequestCode.GET_BROKER_CONSUME_STATS) == 1
            await admin.topics.create("t999", queues=1)
            assert (await admin.topics.list(shared)).found == 4
            assert (await admin.topics.list(ListQuestion(limit=1))).found == 5, "who says nothing gets a new one"
            await admin.topics.create("t998", queues=1)
            admin.sweeper.forget()
            assert (await admin.topics.list(shared)).found == 6


async def test_lists_are_cut_into_pages_in_either_order_and_by_numbers_of_few() -> None:
    async with LoopbackBroker(sockets=False) as broker:
        await with_topics(broker, 10)
        async with aio.Admin(broker.nameserver) as admin:
            page = await admin.topics.list(ListQuestion(descending=True, skip=4, limit=2))
            assert ([row.topic for row in page.rows], page.skip) == (["t005", "t004"], 4)
            last = await admin.topics.list(ListQuestion(skip=40, limit=4))
            assert ([row.topic for row in last.rows], last.skip) == (["t008", "t009"], 8)
            full = await admin.topics.list(ListQuestion(sort=ListSort.MESSAGES, limit=1))
            assert (full.rows[0].topic, full.rows[0].messages, full.kinds["normal"]) == ("t007", 3, 10)
            many = await admin.topics.list(ListQuestion(sort=ListSort.MESSAGES, limit=1, asked_max=5))
            assert many.rows[0].topic == "t000" and "sorted by name alone" in many.problems[0]
            retries = await admin.topics.list(ListQuestion(kind="retry"))
            assert [row.topic for row in retries.rows] == ["%RETRY%billing", "%RETRY%mail"]


async def test_an_examination_does_not_call_well_what_it_could_not_ask() -> None:
    async with LoopbackBroker(sockets=False) as broker:
        await with_topics(broker, 8)
        async with Asked(broker.nameserver, RequestCode.GET_CONSUMER_CONNECTION_LIST) as admin:
            (finding,) = [each for each in await admin.health.findings() if "group" in each.about]
            assert (finding.about, finding.severity) == ("groups", "bad") and "not for you" in finding.text
        async with Asked(broker.nameserver, RequestCode.GET_BROKER_CONSUME_STATS) as admin:
            (finding,) = [each for each in await admin.health.findings() if "group" in each.about]
            assert (finding.about, finding.severity) == ("groups", "bad") and "not for you" in finding.text


async def test_an_examination_says_of_other_groups_what_it_knows_when_one_cannot_be_asked() -> None:
    async with LoopbackBroker(sockets=False) as broker:
        await with_topics(broker, 8)
        mail = aio.PushConsumer(broker.nameserver, group="a-mail", topics="t001", listener=lambda message: None)
        async with mail, Asked(broker.nameserver, RequestCode.GET_CONSUME_STATS) as admin:
            found = {each.about: each for each in await admin.health.findings() if "group" in each.about}
            assert "3 messages left" in found["group billing"].text and "not for you" in found["groups"].text
