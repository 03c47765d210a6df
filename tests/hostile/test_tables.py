"""Requests that would poison the tables: refused where they enter, and the rest of the broker stays reachable."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from pyromq.wire.codes import RequestCode as Code
from pyromq.wire.codes import ResponseCode
from tests.hostile.every_request import request_of
from tests.hostile.rig import Peer, beside_honest_client, count, victim

pytestmark = pytest.mark.integration
INVALID = int(ResponseCode.INVALID_PARAMETER)


def poison() -> list[tuple[Code, dict[str, str], bytes]]:
    topic, _ = request_of(Code.UPDATE_AND_CREATE_TOPIC, "bad", "bad")

    def group(**fields: object) -> bytes:
        return json.dumps({"groupName": "bad", **fields}).encode()

    def topics(**fields: object) -> bytes:
        return json.dumps({"topicConfigList": [{"topicName": "good"}, {"topicName": "bad", **fields}]}).encode()

    many = {f"a{number}": "1" for number in range(1_000)}
    huge = {"message.type": "x" * 500_000}
    in_a_list = b'{"groupConfigList":[' + group(retryQueueNums=1 << 40) + b"]}"
    return [
        (Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, group(retryQueueNums=1_000_000)),
        (Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, group(retryQueueNums=-5)),
        (Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, group(attributes=huge)),
        (Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, group(attributes=many)),
        (Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, group(groupRetryPolicy={"type": "x" * 500_000})),
        (Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, {}, in_a_list),
        (Code.UPDATE_AND_CREATE_TOPIC, topic | {"writeQueueNums": "1000000"}, b""),
        (Code.UPDATE_AND_CREATE_TOPIC, topic | {"attributes": "+message.type=" + "x" * 60_000}, b""),
        (Code.UPDATE_AND_CREATE_TOPIC_LIST, {}, topics(readQueueNums=-1)),
        (Code.UPDATE_AND_CREATE_TOPIC_LIST, {}, topics(attributes=huge)),
        (Code.UPDATE_AND_CREATE_TOPIC_LIST, {}, topics(topicSysFlag=1 << 40)),
        (Code.UPDATE_AND_CREATE_TOPIC_LIST, {}, topics(perm=99)),
    ]


async def test_what_would_poison_the_tables_is_refused_and_new_topics_keep_their_routes(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    rounds = count(2, 50)
    async with victim(tmp_path) as server:
        name = "groups and topics beyond every measure"
        async with beside_honest_client(server, name, rounds * len(poison()), record_property):
            async with Peer(server.broker) as peer:
                for _ in range(rounds):
                    for code, fields, body in poison():
                        response = await peer.ask(code, fields, body)
                        assert response.code == INVALID, (code, body[:80], response.code, response.remark)
                        assert len(response.remark or "") < 500
                fields, body = request_of(Code.UPDATE_AND_CREATE_TOPIC, "later", "readers")
                assert (await peer.ask(Code.UPDATE_AND_CREATE_TOPIC, fields, body)).code == 0
                for absent in ("good", "bad", "%RETRY%bad"):
                    assert (await peer.ask(Code.GET_TOPIC_CONFIG, {"topic": absent})).code != 0, absent
        await server.stop()
        await server.start()
        async with Peer(server.nameserver) as names:
            for topic in ("later", "honest"):
                assert (await names.ask(Code.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})).code == 0, topic


async def test_a_broker_keeps_only_so_many_topics_and_groups(tmp_path: Path) -> None:
    limits = {"PYROMQ_BROKER_TOPICS_MAX": "100", "PYROMQ_BROKER_GROUPS_MAX": "50"}
    async with victim(tmp_path, environment=limits) as server, Peer(server.broker) as peer:
        refused = []
        for number in range(120):
            fields, _ = request_of(Code.SEND_MESSAGE_V2, f"topic-{number}", "senders")
            response = await peer.ask(Code.SEND_MESSAGE_V2, fields, b"x")
            refused += [response.remark] if response.code else []
        assert 20 < len(refused) < 120 and "topics_max" in (refused[0] or "")
        configs = [{"groupName": f"group-{number}", "retryQueueNums": 0} for number in range(60)]
        body = json.dumps({"groupConfigList": configs}).encode()
        response = await peer.ask(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, {}, body)
        assert response.code == INVALID and "groups_max" in (response.remark or "")
        fields, _ = request_of(Code.SEND_MESSAGE_V2, "topic-0", "senders")
        assert (await peer.ask(Code.SEND_MESSAGE_V2, fields, b"x")).code == 0, "what is there goes on"
