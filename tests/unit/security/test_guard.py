"""The guard: what it lets through, what it remembers, what it logs."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyromq.security.errors import AccessChangeError, AccessDeniedError
from pyromq.security.guard import LINES_MAX, Guard, refusal_text
from pyromq.security.identity import Peer
from pyromq.security.policies import PolicyType, UserStatus, UserType
from pyromq.security.resources import Action, ResourcePattern
from pyromq.security.rights import BROKER_RIGHTS, NAMESERVER_RIGHTS
from pyromq.security.secret import Secret
from pyromq.security.user_store import UserStore, user_of
from pyromq.wire.codes import RequestCode as Code
from pyromq.wire.json.access import UserInfo
from pyromq.wire.received import Received
from tests.unit.security.people import (
    CLUSTER,
    add_user,
    allow,
    entry,
    guard_of,
    pull_fields,
    request,
    secret_of,
    send_fields,
)

HERE = Peer("10.1.2.3")


def admitted(guard: Guard, received: Received[Any], peer: Peer = HERE) -> str:
    """Empty when it was let through, else why not."""
    try:
        guard.admit(received, peer)
    except AccessDeniedError as error:
        return str(error)
    return ""


def send(topic: str, user: str = "alice") -> Received[Any]:
    return request(Code.SEND_MESSAGE_V2, send_fields(topic), b"x", user=user)


def pull(topic: str, group: str, user: str = "alice") -> Received[Any]:
    return request(Code.PULL_MESSAGE, pull_fields(topic, group), user=user)


@pytest.fixture
def book() -> UserStore:
    found = UserStore()
    add_user(found, "root", is_super=True)
    add_user(found, "alice")
    return found


def test_refusals_are_in_rocketmqs_words(book: UserStore) -> None:
    guard = guard_of(book)
    text = "User:alice has no permission to access Topic:orders from 10.1.2.3, no matched policies."
    assert admitted(guard, send("orders")) == text
    allow(book, "alice", entry("Topic:orders", "Pub", decision="Deny"))
    assert admitted(guard, send("orders")).endswith("the decision is deny.")
    allow(book, "alice", entry("Topic:orders", "Pub"))
    assert admitted(guard, send("orders")) == ""
    assert admitted(guard, send("orders", "root")) == ""


@pytest.mark.parametrize("received", [send("orders"), pull("orders", "mine")], ids=["send", "pull"])
def test_what_is_allowed_from_one_address_is_remembered_for_that_address_alone(
    book: UserStore, received: Received[Any]
) -> None:
    guard, near = guard_of(book), ("10.1.2.0/24",)
    allow(book, "alice", entry("Topic:orders", "Pub", "Sub", sources=near), entry("Group:mine", "Sub", sources=near))
    for _ in range(2):
        assert admitted(guard, received) == ""
        assert "from 192.0.2.7" in admitted(guard, received, Peer("192.0.2.7"))


def test_a_disabled_user_signs_nothing_any_more(book: UserStore) -> None:
    guard = guard_of(book)
    allow(book, "alice", entry("Topic:orders", "Pub"))
    principal = guard.admit(send("orders"), HERE)
    assert guard.signer(principal) is not None
    book.update_user("alice", None, None, UserStatus.DISABLE)
    assert guard.signer(principal) is None, "lanes must not go on by what was admitted before"


def test_names_of_topics_are_parsed(book: UserStore) -> None:
    guard = guard_of(book)
    allow(book, "alice", entry("Topic:*", "Pub", "Sub"), entry("Group:mine", "Sub"))
    assert admitted(guard, pull("orders", "mine")) == ""
    assert "Group:other" in admitted(guard, pull("orders", "other"))
    assert admitted(guard, pull("%RETRY%mine", "mine")) == ""
    assert "Group:other" in admitted(guard, pull("%RETRY%other", "mine")), "messages of another group"
    assert "Group:other" in admitted(guard, send("%RETRY%other"))
    assert admitted(guard, send("%RETRY%mine")) == ""
    assert admitted(guard, pull("%DLQ%other", "mine")) == "", "a topic like others, as in RocketMQ"
    for topic in ("SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "rmq_sys_wheel_timer"):
        assert f"Cluster:{CLUSTER}" in admitted(guard, pull(topic, "mine")), "it holds messages of every topic"


def test_lists_name_all_their_resources(book: UserStore) -> None:
    guard = guard_of(book)
    allow(book, "alice", entry("Topic:a*", "Create", "Sub"), entry("Group:a*", "Sub", "Create", "Get"))

    def topics(*names: str) -> Received[Any]:
        body = json.dumps({"topicConfigList": [{"topicName": name} for name in names]}).encode()
        return request(Code.UPDATE_AND_CREATE_TOPIC_LIST, {}, body, user="alice")

    assert admitted(guard, topics("a1", "a2")) == ""
    assert "Topic:b" in admitted(guard, topics("a1", "b", "a2"))
    assert admitted(guard, topics()) == "the request names no resource."

    def heartbeat(**groups: list[str]) -> Received[Any]:
        consumers = [
            {"groupName": name, "subscriptionDataSet": [{"topic": topic} for topic in topics]}
            for name, topics in groups.items()
        ]
        body = json.dumps({"clientID": "c", "consumerDataSet": consumers}).encode()
        return request(Code.HEART_BEAT, {}, body, user="alice")

    assert admitted(guard, heartbeat()) == "", "producers are not asked"
    assert admitted(guard, heartbeat(a1=["a", "%RETRY%a1"], a2=["aa"])) == ""
    assert "Topic:b" in admitted(guard, heartbeat(a1=["a"], a2=["b"]))
    assert "Group:b" in admitted(guard, heartbeat(a1=["a"], b=["a"]))
    assert "Group:b" in admitted(guard, heartbeat(a1=["a", "%RETRY%b"]))
    stats = {"consumerGroup": "a", "topicList": "a1;b1"}
    assert "Topic:a1" in admitted(guard, request(Code.GET_CONSUME_STATS, stats, user="alice"))


def test_a_body_that_cannot_be_read_is_refused(book: UserStore) -> None:
    guard = guard_of(book)
    for code in (Code.HEART_BEAT, Code.LOCK_BATCH_MQ, Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, Code.QUERY_ASSIGNMENT):
        for body in (b"", b"{", b"[]", b"\xff", b"[" * 5_000, b"x" * (2 << 20)):
            reason = admitted(guard, request(code, {}, body, user="alice"))
            assert reason, (code, body[:10])


def test_white_listed_addresses_are_not_asked_until_the_list_changes(book: UserStore) -> None:
    from pyromq.security.addresses import WhiteList

    guard = guard_of(book)
    unsigned = request(Code.SEND_MESSAGE_V2, send_fields("orders"))
    assert admitted(guard, unsigned)
    book.follow([], WhiteList(("10.1.2.*",)))
    assert admitted(guard, unsigned) == ""
    assert admitted(guard, unsigned, Peer("10.1.3.3"))
    book.follow([], WhiteList())
    assert admitted(guard, unsigned)


def test_without_authorization_any_known_user_may(book: UserStore) -> None:
    guard = Guard(book, guard_of(book)._validators, BROKER_RIGHTS, CLUSTER, checks_rights=False)
    assert admitted(guard, send("orders")) == ""
    assert admitted(guard, request(Code.SEND_MESSAGE_V2, send_fields("orders")))


def test_a_name_server_lets_no_stranger_register_a_broker(book: UserStore) -> None:
    guard = guard_of(book, NAMESERVER_RIGHTS, "*")
    fields = {
        **{"brokerName": "broker-a", "brokerAddr": "10.1.2.3:10911", "clusterName": CLUSTER, "haServerAddr": ""},
        **{"brokerId": "0"},
    }
    register = request(Code.REGISTER_BROKER, fields, user="alice")
    assert "Cluster:DefaultCluster" in admitted(guard, register)
    allow(book, "alice", entry("Cluster:DefaultCluster", "Update"))
    assert "Topic:broker-a" in admitted(guard, register)
    allow(book, "alice", entry("Topic:broker-a", "Update"))
    assert admitted(guard, register) == ""
    other = request(Code.REGISTER_BROKER, {**fields, "brokerName": "broker-b"}, user="alice")
    assert "Topic:broker-b" in admitted(guard, other)


def test_routes_need_a_right_on_their_topic(book: UserStore) -> None:
    guard = guard_of(book, NAMESERVER_RIGHTS, "*")

    def route(topic: str) -> str:
        return admitted(guard, request(Code.GET_ROUTEINFO_BY_TOPIC, {"topic": topic}, user="alice"))

    allow(book, "alice", entry("Topic:orders", "Pub"), entry("Group:mine", "Sub"))
    assert route("orders") == route("%RETRY%mine") == route("TBW102") == ""
    assert route("payments") and route("%RETRY%other") and route("%DLQ%mine")


def test_a_refusal_is_logged_once_for_each_peer_and_reason(book: UserStore, caplog: pytest.LogCaptureFixture) -> None:
    guard = guard_of(book)
    caplog.set_level(logging.WARNING)
    for _ in range(5):
        admitted(guard, send("orders"))
        admitted(guard, send("orders"), Peer("10.1.2.4"))
        admitted(guard, request(Code.SEND_MESSAGE_V2, send_fields("orders")))
    assert len(caplog.records) == 3
    assert secret_of("alice") not in caplog.text


# --- what is remembered equals what is not ---

USERS = ("root", "alice", "bob")
PEERS = (HERE, Peer("192.168.0.9"))
RESOURCES = ("*", "Topic:*", "Topic:o*", "Topic:orders", "Topic:payments", "Group:*", "Group:mine", "Cluster:*")


def _apply(book: UserStore, step: tuple[Any, ...]) -> None:
    kind, *arguments = step
    try:
        if kind == "allow":
            user, resource, action, decision, is_default, sources = arguments
            where = PolicyType.DEFAULT if is_default else PolicyType.CUSTOM
            allow(book, user, entry(resource, action, decision=decision, sources=sources), kind=where)
        elif kind == "forget":
            book.delete_policies(arguments[0], None, ResourcePattern.parse(arguments[1]))
        elif kind == "type":
            book.update_user(arguments[0], None, arguments[1], None)
        elif kind == "status":
            book.update_user(arguments[0], None, None, arguments[1])
        elif kind == "password":
            book.update_user(arguments[0], Secret(arguments[1]), None, None)
        elif kind == "delete":
            book.delete_user(arguments[0])
        elif kind == "create":
            book.create_user(user_of(UserInfo(username=arguments[0], password=secret_of(arguments[0]))))
    except AccessChangeError:
        pass


users = st.sampled_from(USERS)
changes = st.one_of(
    st.tuples(
        st.just("allow"),
        users,
        st.sampled_from(RESOURCES),
        st.sampled_from(["All", "Pub", "Sub", "Get"]),
        st.sampled_from(["Allow", "Deny"]),
        st.booleans(),
        st.sampled_from([None, ("10.0.0.0/8",), ("192.168.0.9",)]),
    ),
    st.tuples(st.just("forget"), users, st.sampled_from(RESOURCES)),
    st.tuples(st.just("type"), users, st.sampled_from(list(UserType))),
    st.tuples(st.just("status"), users, st.sampled_from(list(UserStatus))),
    st.tuples(st.just("password"), users, st.sampled_from(["new", *map(secret_of, USERS)])),
    st.tuples(st.just("delete"), users),
    st.tuples(st.just("create"), users),
)
makers: list[Callable[[str], Received[Any]]] = [
    lambda user: send("orders", user),
    lambda user: send("payments", user),
    lambda user: send("%RETRY%mine", user),
    lambda user: pull("orders", "mine", user),
    lambda user: pull("%RETRY%other", "mine", user),
    lambda user: request(Code.GET_BROKER_CONFIG, user=user),
    lambda user: request(Code.GET_ALL_TOPIC_CONFIG, user=user),
    lambda user: request(Code.QUERY_MESSAGE, {"topic": "orders", "key": "k", "maxNum": "1", **_TIMES}, user=user),
]
_TIMES = {"beginTimestamp": "0", "endTimestamp": "9"}
asks = st.tuples(st.just("ask"), users, st.sampled_from(range(len(makers))), st.sampled_from(PEERS))


@settings(max_examples=150, deadline=None)
@given(st.lists(st.one_of(asks, asks, asks, changes), min_size=5, max_size=60))
def test_what_is_remembered_equals_what_is_decided_anew(steps: list[tuple[Any, ...]]) -> None:
    book = UserStore()
    add_user(book, "root", is_super=True)
    add_user(book, "alice")
    remembering = guard_of(book)
    for step in steps:
        if step[0] != "ask":
            _apply(book, step)
            continue
        _, user, number, peer = step
        received = makers[number](user)
        assert admitted(remembering, received, peer) == admitted(guard_of(book), received, peer)


@given(st.lists(changes, max_size=20), users, st.sampled_from(RESOURCES[3:5]), st.sampled_from(PEERS))
def test_a_decision_is_that_of_the_rules(steps: list[tuple[Any, ...]], user: str, resource: str, peer: Peer) -> None:
    book = UserStore()
    for name in USERS:
        add_user(book, name)
    for step in steps:
        _apply(book, step)
    guard, received = guard_of(book), send(resource.partition(":")[2], user)
    try:
        principal = guard.verify(received, peer)
    except AccessDeniedError:
        return
    needs = list(BROKER_RIGHTS[Code.SEND_MESSAGE_V2].needs(received, CLUSTER))
    plain = next((text for need in needs if (text := refusal_text(book.rules, principal, need, peer.ip))), "")
    assert admitted(guard, received, peer) == plain
    assert guard.may(principal, needs[0].resource.name, (Action.PUB,), peer.ip) == (not plain)


def memory_of(guard: Guard) -> int:
    return guard._admitted.size_bytes + guard._decided.size_bytes + guard._logged.size_bytes


def test_names_of_a_megabyte_are_neither_remembered_nor_shown(
    book: UserStore, caplog: pytest.LogCaptureFixture
) -> None:
    guard, told = guard_of(book), list[str]()
    guard.on_refused = lambda request, peer, user, reason: told.append(reason)
    allow(book, "alice", entry("Topic:*", "Pub"))
    for number in range(8):
        name = f"{number}".ljust(1_000_000, "x")
        assert "is not found" in admitted(guard, request(Code.SEND_MESSAGE_V2, send_fields("t"), user=name, secret="s"))
        assert "has no permission" in admitted(guard, pull(name, "g"))
        assert admitted(guard, send(name)) == "", "its topic is for the handler to refuse"
    assert max(map(len, told)) < 1_000 and len(told) == 16
    assert max(map(len, caplog.messages)) < 1_000
    assert memory_of(guard) < 100_000


def test_what_is_remembered_and_logged_of_many_names_is_bounded(
    book: UserStore, caplog: pytest.LogCaptureFixture
) -> None:
    guard = guard_of(book)
    for number in range(LINES_MAX + 200):
        assert admitted(guard, request(Code.SEND_MESSAGE_V2, send_fields("t"), user=f"nobody-{number}", secret="s"))
    lines = [line for line in caplog.messages if "refus" in line]
    assert len(lines) == LINES_MAX + 1 and "more refusals" in lines[-1]
    allow(book, "alice", entry("Topic:*", "Pub"))
    assert admitted(guard, send("orders")) == ""
    assert admitted(guard, pull("orders", "g"))
    assert "has no permission" in caplog.messages[-1], "other rules, other reasons: these are logged again"
