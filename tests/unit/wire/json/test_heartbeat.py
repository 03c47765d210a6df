from __future__ import annotations

import msgspec
import pytest

from pyromq.errors import RemoteProtocolError
from pyromq.wire.json import java_json
from pyromq.wire.json.heartbeat import (
    CheckClient,
    ClientConnection,
    ConsumeFromWhere,
    ConsumerConnections,
    ConsumerData,
    ConsumeType,
    Heartbeat,
    MessageModel,
    ProducerData,
    Subscription,
    decode_consumer_connections,
    decode_heartbeat,
    encode_heartbeat,
)

SUBSCRIPTION = Subscription(topic="t", sub_string="TagA", tags_set=frozenset(["TagA"]), code_set=frozenset([2598919]))
HEARTBEAT = Heartbeat(
    client_id="10.0.0.5@1#123",
    producer_data_set=(ProducerData(group_name="p"),),
    consumer_data_set=(
        ConsumerData(
            group_name="g",
            consume_type=ConsumeType.CONSUME_POP,
            message_model=MessageModel.BROADCASTING,
            consume_from_where=ConsumeFromWhere.CONSUME_FROM_TIMESTAMP,
            subscription_data_set=(SUBSCRIPTION,),
        ),
    ),
)


def subscribed(subscription: str) -> Subscription:
    body = f'{{"clientID":"c","consumerDataSet":[{{"groupName":"g","subscriptionDataSet":[{subscription}]}}]}}'
    return decode_heartbeat(body.encode()).consumer_data_set[0].subscription_data_set[0]


def test_a_heartbeat_reads_back() -> None:
    assert decode_heartbeat(encode_heartbeat(HEARTBEAT)) == HEARTBEAT


def test_go_sends_tag_codes_as_text() -> None:
    found = subscribed(
        '{"topic":"t","subString":"TagA","tagsSet":["TagA"],"codeSet":["2598919"],"expressionType":"TAG"}'
    )
    assert found == SUBSCRIPTION


@pytest.mark.parametrize("field", ["", ',"expressionType":null', ',"expressionType":""', ',"expressionType":"TAG"'])
def test_an_absent_expression_type_means_tags(field: str) -> None:
    assert subscribed(f'{{"topic":"t"{field}}}').expression_type == "TAG"


def test_sql_subscriptions_keep_their_type() -> None:
    assert subscribed('{"topic":"t","expressionType":"SQL92","subString":"a > 5"}').expression_type == "SQL92"


@pytest.mark.parametrize("sets", ["", ',"tagsSet":null,"codeSet":null', ',"tagsSet":[],"codeSet":[]'])
def test_absent_sets_are_empty(sets: str) -> None:
    assert subscribed(f'{{"topic":"t"{sets}}}').tags_set == frozenset()


def test_the_order_of_sets_does_not_matter() -> None:
    assert subscribed('{"topic":"t","tagsSet":["a","b"]}') == subscribed('{"topic":"t","tagsSet":["b","a"]}')


def test_enums_are_understood_by_their_place() -> None:
    body = (
        b'{"clientID":"c","consumerDataSet":[{"groupName":"g","consumeType":2,"messageModel":0,"consumeFromWhere":5}]}'
    )
    consumer = decode_heartbeat(body).consumer_data_set[0]
    assert consumer == msgspec.structs.replace(HEARTBEAT.consumer_data_set[0], subscription_data_set=())


def test_clients_without_groups_are_allowed() -> None:
    assert decode_heartbeat(b'{"clientID":"c"}') == Heartbeat(client_id="c")


@pytest.mark.parametrize(
    "body",
    [
        b"", b"[]", b"{}", b'{"clientID":5}', b'{"clientID":"c","consumerDataSet":5}',
        b'{"clientID":"c","consumerDataSet":[5]}', b'{"clientID":"c","consumerDataSet":[{}]}',
        b'{"clientID":"c","consumerDataSet":[{"groupName":"g","consumeType":3}]}',
        b'{"clientID":"c","consumerDataSet":[{"groupName":"g","consumeType":-1}]}',
        b'{"clientID":"c","consumerDataSet":[{"groupName":"g","messageModel":"OTHER"}]}',
    ],
)  # fmt: skip
def test_other_bodies_are_typed_errors(body: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_heartbeat(body)


def test_connections_and_client_checks_read_back() -> None:
    connection = ClientConnection(client_id="c", client_addr="10.0.0.5:51000", language="JAVA", version=479)
    connections = ConsumerConnections(connection_set=(connection,), subscription_table={"t": SUBSCRIPTION})
    assert decode_consumer_connections(java_json.dumps(connections)) == connections
    check = CheckClient(client_id="c", group="g", subscription_data=SUBSCRIPTION)
    assert java_json.decode(java_json.dumps(check), CheckClient) == check
    with pytest.raises(RemoteProtocolError):
        decode_consumer_connections(b"[]")
