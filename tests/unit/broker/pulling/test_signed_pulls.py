"""The pull lane of a broker with access control: it answers nobody whom the guard would refuse."""

from __future__ import annotations

import os
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from pyromq.broker.base.access import GuardedAccess
from pyromq.broker.dispatching import dispatcher as dispatcher_module
from pyromq.compiled_core import DESCRIPTION, core
from pyromq.security import validators
from pyromq.security.addresses import WhiteList
from pyromq.security.policies import PolicyEntry, PolicyType, UserStatus, make_user
from pyromq.security.secret import Secret
from pyromq.security.settings import AccessSettings
from pyromq.security.user_store import UserStore
from pyromq.store import queue_scan
from pyromq.store.settings import Flush
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.json.access import PolicyEntryInfo
from pyromq.wire.signature import sign
from tests.running.seeds import seeds
from tests.unit.broker.pulling.test_pull_lane import COMMIT, SUBSCRIPTION, SUSPEND, answers, pull_frame
from tests.unit.broker.sending.lane_rig import LaneRig, Peer
from tests.unit.broker.sending.test_one_truth import compare
from tests.unit.broker.sending.test_signed_lane import ACCESS, book_of, signed

pytestmark = pytest.mark.skipif(core is None, reason=f"there is no lane: {DESCRIPTION}")
_SEEDS = int(os.environ.get("PYROMQ_TRUTH_SEEDS", "6"))
_STEPS = 60
READER, SECRET = "leser-ä", "reader-secret"
NEARBY, FAR = "10.0.0.1", "10.9.9.9"


def signed_pull(number: int, offset: int = 0, user: str = READER, secret: str = SECRET, **ext: Any) -> bytes:
    fields = {"consumerGroup": "readers", "topic": "orders", "queueId": "1", "queueOffset": str(offset)}
    fields |= {"maxMsgNums": "32", "sysFlag": str(SUBSCRIPTION), "commitOffset": "0", "suspendTimeoutMillis": "15000"}
    fields |= {"subscription": "*", "subVersion": "0", "expressionType": "TAG", "AccessKey": user} | ext
    fields.setdefault("Signature", sign(fields, b"", secret))
    return pull_frame(number, ext=fields)


def allow(book: UserStore, *, topic: str = "orders", decision: str = "Allow", sources: tuple[str, ...] = ()) -> None:
    """The reader may read the topic in any group, or must not, from these addresses or all."""
    entries = [
        PolicyEntryInfo(resource=f"Topic:{topic}", actions=("Sub",), source_ips=sources or None, decision=decision),
        PolicyEntryInfo(resource="Group:*", actions=("Sub",), decision="Allow"),
    ]
    book.set_policies(READER, {PolicyType.CUSTOM: tuple(map(PolicyEntry.of, entries))})


def guarded(with_core: bool = True, flush: Flush = Flush.ASYNC, access: AccessSettings = ACCESS) -> LaneRig:
    return LaneRig(with_core, flush, settings={"access": access})


async def filled(rig: LaneRig, queues: tuple[int, ...] = (1,)) -> UserStore:
    """Messages, and a user who may read them."""
    book = book_of(rig)
    book.create_user(make_user(READER, Secret(SECRET)))
    allow(book)
    rig.arrive(0, b"".join(signed(number, e=str(queue)) for queue in queues for number in range(1, 31)))
    await rig.settle()
    return book


async def learned(rig: LaneRig, **ext: Any) -> UserStore:
    """Also one pull the ordinary way, after which the lane knows its kind."""
    book = await filled(rig)
    rig.arrive(1, signed_pull(100, **ext))
    await rig.settle()
    assert codes(rig.clients[1]) == [ResponseCode.SUCCESS] and rig.pulls.lane.known == 1
    return book


def taken(rig: LaneRig, data: bytes, peer: Peer | None = None) -> bool:
    """Whether the lane takes them all, without anything else."""
    return bool(rig.pulls.lane.take((peer or rig.clients[1]).connection, data) == len(data))


def codes(peer: Peer) -> list[int]:
    return [command.code for command, _ in answers(peer)]


async def test_what_the_guard_has_let_pass_is_taken_with_a_good_signature_only() -> None:
    async with guarded() as rig:
        await filled(rig)
        assert not taken(rig, signed_pull(1))
        rig.arrive(1, signed_pull(2))
        assert taken(rig, signed_pull(3) + signed_pull(4, 7, maxMsgNums="2", bname="ä"))
        right = _signature_of(signed_pull(0, 5))
        assert taken(rig, signed_pull(3, 5, Signature=right))
        for wrong in (right[:-1], right + "=", right.swapcase(), "", right[1:] + right[0], "x" * 28, None):
            assert not taken(rig, signed_pull(3, 5, Signature=wrong)), wrong
        assert not taken(rig, signed_pull(3, 6, Signature=right)), "of another offset"
        assert not taken(rig, signed_pull(3, 5, commitOffset="9", Signature=right))
        assert not taken(rig, signed_pull(3, secret="another"))
        for user in ("nobody", "", READER.upper(), "root"):
            assert not taken(rig, signed_pull(3, user=user)), user
        assert not taken(rig, pull_frame(3)), "not signed"


def _signature_of(frame: bytes) -> str:
    return frame.partition(b'"Signature":"')[2].partition(b'"')[0].decode()


async def test_another_user_address_group_queue_topic_and_subscription_are_decided_by_the_guard_first() -> None:
    async with guarded() as rig:
        await learned(rig)
        assert taken(rig, signed_pull(1))
        stranger = Peer(rig.broker, rig.clock, 7, FAR)
        assert not taken(rig, signed_pull(1), stranger)
        assert not taken(rig, signed_pull(1, user="root", secret="röot-secret"))
        for other in ({"consumerGroup": "others"}, {"topic": "payments"}, {"queueId": "2"}, {"subscription": "TagA"}):
            assert not taken(rig, signed_pull(1, **other)), other
        stranger.arrive(signed_pull(2))
        rig.arrive(1, signed_pull(2, user="root", secret="röot-secret"))
        assert taken(rig, signed_pull(3), stranger)
        assert taken(rig, signed_pull(3, user="root", secret="röot-secret"))
        assert rig.pulls.lane.known == 3


async def test_signatures_that_clients_make_in_several_ways_are_pythons() -> None:
    async with guarded() as rig:
        await learned(rig)
        for odd in ({"_UNIQUE_KEY_QUERY": "true"}, {"ü": "1"}):
            assert not taken(rig, signed_pull(1, **odd)), odd
        data = signed_pull(1)
        twice = data[8:].replace(b'"AccessKey":', b'"bname":"b","bname":"b","AccessKey":')
        assert not taken(rig, (len(twice) + 4).to_bytes(4, "big") + len(twice).to_bytes(4, "big") + twice)
        assert taken(rig, signed_pull(1, SecurityToken="t"))


async def test_a_lite_pull_does_not_make_others_known() -> None:
    async with guarded() as rig:
        await filled(rig)
        data = signed_pull(1)[8:].replace(b'"code":11,', b'"code":361,')
        assert RequestCode.LITE_PULL_MESSAGE == 361
        rig.arrive(1, (len(data) + 4).to_bytes(4, "big") + len(data).to_bytes(4, "big") + data)
        assert codes(rig.clients[1]) == [ResponseCode.SUCCESS] and rig.pulls.lane.known == 0


REFUSED, ANSWERED = ResponseCode.NO_PERMISSION, ResponseCode.SUCCESS
CHANGES: dict[str, tuple[Callable[[UserStore], object], ResponseCode]] = {
    "password": (lambda book: book.update_user(READER, Secret("new"), None, None), REFUSED),
    "disabled": (lambda book: book.update_user(READER, None, None, UserStatus.DISABLE), REFUSED),
    "deleted": (lambda book: book.delete_user(READER), REFUSED),
    "denied": (lambda book: allow(book, decision="Deny"), REFUSED),
    "from elsewhere": (lambda book: allow(book, sources=(FAR,)), REFUSED),
    "no policies": (lambda book: book.delete_policies(READER, None, None), REFUSED),
    "another topic too": (lambda book: allow(book, topic="payments"), ANSWERED),
    "somebody else": (lambda book: book.create_user(make_user("other", Secret("x"))), ANSWERED),
}


@pytest.mark.parametrize("name", CHANGES)
async def test_any_change_of_users_and_policies_makes_the_guard_decide_again(name: str) -> None:
    change, expected = CHANGES[name]
    async with guarded() as rig:
        book = await learned(rig)
        assert taken(rig, signed_pull(1))
        change(book)
        assert not taken(rig, signed_pull(2))
        assert rig.pulls.lane.known == 0
        rig.arrive(2, signed_pull(3))
        assert codes(rig.clients[2]) == [expected]
        assert taken(rig, signed_pull(4)) is (expected is ANSWERED)


async def test_addresses_and_users_that_are_let_in_without_signatures_are_pythons() -> None:
    async with guarded() as rig:
        book = await learned(rig)
        book.add((), WhiteList((FAR,)))
        rig.arrive(1, signed_pull(1))
        assert codes(rig.clients[1]) == [ANSWERED] * 2 and rig.pulls.lane.known == 0


async def test_a_user_who_needs_no_signature_at_its_address_is_let_in_by_python() -> None:
    async with guarded() as rig:
        book = book_of(rig)
        await filled(rig)
        book.delete_user(READER)
        book.create_user(make_user(READER, Secret(SECRET), white_list=WhiteList((NEARBY,))))
        allow(book)
        rig.arrive(1, signed_pull(1, secret="wrong"))
        assert not taken(rig, signed_pull(2, secret="wrong"))
        assert taken(rig, signed_pull(2))
        rig.arrive(1, signed_pull(3, secret="wrong"))
        assert codes(rig.clients[1])[0] == codes(rig.clients[1])[-1] == ANSWERED


async def test_where_more_than_signatures_is_asked_for_the_lane_is_closed() -> None:
    both = ("signature", "tests.unit.broker.sending.test_signed_lane:also")
    async with guarded(access=AccessSettings(enabled=True, initial_user=ACCESS.initial_user, validators=both)) as rig:
        await filled(rig)
        rig.arrive(1, signed_pull(1))
        assert codes(rig.clients[1]) == [ANSWERED]
        assert not rig.pulls.lane.is_open and not taken(rig, signed_pull(2))


async def test_a_held_pull_of_a_kind_that_the_lane_knows_is_refused_when_its_right_ends() -> None:
    waits = {"sysFlag": str(SUSPEND | SUBSCRIPTION)}
    async with guarded() as rig:
        book = await learned(rig, **waits)
        rig.arrive(1, signed_pull(1, **waits) + signed_pull(2, 30, **waits))
        assert len(rig.broker.parts.waiters) == 1
        allow(book, decision="Deny")
        rig.pulls.recheck_some()
        await rig.settle()
        assert codes(rig.clients[1]) == [ANSWERED, ANSWERED, REFUSED]


# --- one truth ---


def random_pull(rng: Random, number: int, sent: list[bytes]) -> bytes:
    """Mostly of a few kinds, well signed; sometimes badly, or an earlier one with something changed."""
    if sent and rng.random() < 0.1:
        frame = rng.choice(sent)
        if rng.random() < 0.3:
            return frame  # as it was
        return frame.replace(b'"queueOffset":"1"', b'"queueOffset":"3"').replace(b'"queueId":"0"', b'"queueId":"1"')
    ext: dict[str, Any] = {
        "consumerGroup": rng.choice(("readers",) * 9 + ("others",)),
        "topic": rng.choice(("orders",) * 14 + ("payments",)),
        "queueId": str(rng.randrange(2)),
        "sysFlag": str(SUBSCRIPTION | rng.choice((0, 0, 0, COMMIT, COMMIT, SUSPEND))),
        "commitOffset": str(rng.choice((0, 1, 5, 1000))),
        "maxMsgNums": str(rng.choice((1, 5, 32))),
    }
    if rng.random() < 0.05:
        ext |= rng.choice(
            ({"ns": "x"}, {"bname": "ü"}, {"ü": "1"}, {"SecurityToken": "t"}, {"_UNIQUE_KEY_QUERY": "1"}, {"z": 'a"'})
        )
    users = ((READER, SECRET),) * 7 + (("root", "röot-secret"),) * 2 + ((READER, "new-secret"),)
    user, secret = rng.choice(users)
    if rng.random() < 0.05:
        user, secret = rng.choice(((user, "wrong"), ("", secret), ("nobody", secret), ("Root", secret)))
    if rng.random() < 0.03:
        ext["Signature"] = rng.choice(("", "x" * 28, "ü"))
    frame = signed_pull(number, rng.choice((0, 1, 1, 3, 10, 29, 30)), user, secret, **ext)
    sent.append(frame)
    if rng.random() < 0.01:
        at = rng.randrange(8, len(frame))
        frame = frame[:at] + rng.randbytes(1) + frame[at + 1 :]
    return frame


def change(rng: Random, book: UserStore) -> None:
    match rng.randrange(12):
        case 0:
            allow(book, decision=rng.choice(("Allow", "Deny")))
        case 1:
            allow(book, sources=rng.choice(((FAR,), (NEARBY,), ())))
        case 2:
            allow(book, topic="payments", decision=rng.choice(("Allow", "Deny")))
        case 3:
            book.update_user(READER, Secret(rng.choice((SECRET, "new-secret"))), None, None)
        case 4:
            book.update_user(READER, None, None, rng.choice((UserStatus.ENABLE, UserStatus.DISABLE)))
        case _:  # so that there is something to read
            book.update_user(READER, Secret(SECRET), None, UserStatus.ENABLE)
            allow(book)


async def outcome_of(seed: int, flush: Flush, *, with_core: bool) -> tuple[dict[str, Any], int]:
    """Everything that came of it, who was refused and why, and how many pulls the lane answered."""
    rng, number, answered = Random(seed), 1000, 0
    streams, sent, refused = dict.fromkeys(range(3), b""), list[bytes](), list[object]()
    async with guarded(with_core, flush) as rig:
        if with_core:
            lane_take = rig.pulls.lane.take

            def take(connection: Any, data: Any) -> int:
                nonlocal answered
                before = connection.frames_in
                consumed: int = lane_take(connection, data)
                answered += connection.frames_in - before
                return consumed

            rig.pulls.lane.take = take
        hosts = (NEARBY, NEARBY, FAR)
        rig.clients = [Peer(rig.broker, rig.clock, count, host) for count, host in enumerate(hosts)]
        book = await filled(rig, queues=(0, 1))
        access = rig.broker.access
        assert isinstance(access, GuardedAccess)
        audit = access.guard.on_refused

        def on_refused(request: Any, peer: Any, user: str, reason: str) -> None:
            refused.append((request.code, request.correlation_id, peer.ip, user, reason))
            if audit is not None:
                audit(request, peer, user, reason)

        access.guard.on_refused = on_refused
        for _ in range(_STEPS):
            rig.clock.advance_ms(rng.choice((0, 0, 1, 700)))
            if rng.random() < 0.15:
                change(rng, book)
            if rng.random() < 0.05:
                rig.broker.parts.tables.progress.reset("readers", "orders", rng.randrange(2), rng.randrange(10))
            for peer in rng.sample(range(3), rng.choice((1, 1, 2, 3))):
                for _ in range(rng.choice((1, 2, 10))):
                    number += 1
                    is_send = rng.random() < 0.03
                    streams[peer] += (
                        signed(number, e=str(rng.randrange(2))) if is_send else random_pull(rng, number, sent)
                    )
                stream = streams[peer]
                cut = len(stream) if rng.random() < 0.85 else rng.randrange(len(stream) + 1)  # reads end anywhere
                read, streams[peer] = stream[:cut], stream[cut:]
                rig.arrive(peer, read)
            await rig.settle()
            rig.pulls.recheck_some()
            rig.pulls.respond_due()
        return {**rig.outcome(), "refused": refused}, answered


@pytest.mark.parametrize("flush", Flush)
@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(_SEEDS))
async def test_the_same_signed_pulls_are_answered_the_same(
    seed: int, flush: Flush, monkeypatch: pytest.MonkeyPatch
) -> None:
    print(f"seed {seed}")
    with monkeypatch.context() as patch:
        for module in (queue_scan, validators, dispatcher_module):
            patch.setattr(module, "core", None)
        expected, _ = await outcome_of(seed, flush, with_core=False)
    found, answered = await outcome_of(seed, flush, with_core=True)
    compare(found, expected)
    assert answered > 3 and len(expected["refused"]) > 3
