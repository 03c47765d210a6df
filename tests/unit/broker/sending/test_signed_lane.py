"""The send lane of a broker with access control: it lets nobody pass whom the guard would refuse."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from pyromq.broker.base.access import GuardedAccess
from pyromq.compiled_core import DESCRIPTION, core
from pyromq.security.policies import UserStatus, make_user
from pyromq.security.secret import Secret
from pyromq.security.settings import AccessSettings
from pyromq.security.user_store import UserStore
from pyromq.wire.batch import BatchItem, encode_batch
from pyromq.wire.codes import ResponseCode
from pyromq.wire.command import decode_command
from pyromq.wire.frame import FrameDecoder
from pyromq.wire.signature import sign
from tests.unit.broker.sending.lane_rig import LaneRig, Peer, properties_of, send_frame
from tests.unit.broker.sending.test_one_truth import compare

pytestmark = pytest.mark.skipif(core is None, reason=f"there is no lane: {DESCRIPTION}")
ACCESS = AccessSettings(enabled=True, initial_user=Secret('{"username":"root","password":"röot-secret"}'))
KEY = "UNIQ_KEY\x017F0000010000000000000000\x02"
FIELDS = {"a": "producers", "b": "orders", "c": "TBW102", "d": "4", "e": "1", "f": "0", "g": "1700000000123", "h": "0"}
FIELDS |= {"i": KEY, "j": "0", "k": "false", "l": "16", "m": "false", "n": "broker-a"}


def signed(number: int, secret: str = "röot-secret", user: str = "root", body: bytes = b"body", **ext: str) -> bytes:
    code = int(ext.pop("code", "310"))
    fields = {**FIELDS, "AccessKey": user, **ext}
    fields.setdefault("Signature", sign(fields, body, secret))
    return send_frame(number, fields["b"], fields["e"], fields["i"], body, code=code, ext=fields)


def rig() -> LaneRig:
    return LaneRig(with_core=True, settings={"access": ACCESS})


def book_of(guarded: LaneRig) -> UserStore:
    access = guarded.broker.access
    assert isinstance(access, GuardedAccess)
    return access.guard.book


def taken(guarded: LaneRig, data: bytes, peer: Peer | None = None) -> bool:
    return bool(guarded.sends.lane.take((peer or guarded.clients[0]).connection, data))


def codes(peer: Peer) -> list[int]:
    return [decode_command(frame).code for frame in FrameDecoder().feed(peer.answered)]


async def admitted(guarded: LaneRig) -> None:
    guarded.arrive(0, signed(1))
    await guarded.settle()
    assert codes(guarded.clients[0]) == [ResponseCode.SUCCESS] and taken(guarded, signed(2))


async def test_what_the_guard_has_let_pass_is_taken_with_a_good_signature_only() -> None:
    async with rig() as guarded:
        assert not taken(guarded, signed(1))
        await admitted(guarded)
        right = sign({**FIELDS, "AccessKey": "root"}, b"body", "röot-secret")
        assert taken(guarded, signed(3, Signature=right))
        for wrong in (right[:-1], right + "=", right.swapcase(), "", right[1:] + right[0], "x" * 28):
            assert not taken(guarded, signed(3, Signature=wrong)), wrong
        assert not taken(guarded, signed(3, secret="another"))
        assert not taken(guarded, signed(3, user="nobody"))
        assert not taken(guarded, signed(3, user=""))
        assert not taken(guarded, send_frame(3, "orders", 1, KEY, b"body")), "not signed"
        assert not taken(guarded, signed(3, Signature=right, body=b"bodY"))
        assert not taken(guarded, signed(3, Signature=right, e="2")), "a field was changed"


async def test_another_address_another_code_and_another_topic_are_decided_by_the_guard_first() -> None:
    async with rig() as guarded:
        await admitted(guarded)
        stranger = Peer(guarded.broker, guarded.clock, 7, "10.9.9.9")
        assert not taken(guarded, signed(2), stranger)
        assert not taken(guarded, signed(2, b="payments"))
        batch = encode_batch([BatchItem(b"x", KEY.encode())])
        as_batch = signed(2, body=batch, m="true", code="320")
        assert not taken(guarded, as_batch)
        guarded.arrive(0, as_batch)
        await guarded.settle()
        assert taken(guarded, as_batch)


@pytest.mark.parametrize("change", ["password", "disabled", "deleted", "someone else"])
async def test_any_change_of_users_makes_the_guard_decide_again(change: str) -> None:
    async with rig() as guarded:
        await admitted(guarded)
        book = book_of(guarded)
        book.create_user(make_user("other", Secret("other-secret")))
        assert not taken(guarded, signed(3))
        guarded.arrive(0, signed(4))
        await guarded.settle()
        assert taken(guarded, signed(5))
        match change:
            case "password":
                book.update_user("root", Secret("new-secret"), None, None)
            case "disabled":
                book.create_user(make_user("boss", Secret("boss"), book.rules.users["root"].type))
                book.update_user("root", None, None, UserStatus.DISABLE)
            case "deleted":
                book.create_user(make_user("boss", Secret("boss"), book.rules.users["root"].type))
                book.delete_user("root")
            case "someone else":
                book.delete_user("other")
        assert not taken(guarded, signed(6))
        guarded.arrive(1, signed(7))
        await guarded.settle()
        expected = ResponseCode.SUCCESS if change == "someone else" else ResponseCode.NO_PERMISSION
        assert codes(guarded.clients[1]) == [expected]


async def test_where_more_than_signatures_is_asked_for_the_lane_is_closed() -> None:
    access = AccessSettings(
        enabled=True,
        initial_user=ACCESS.initial_user,
        validators=("signature", "tests.unit.broker.sending.test_signed_lane:also"),
    )
    async with LaneRig(with_core=True, settings={"access": access}) as guarded:
        guarded.arrive(0, signed(1))
        await guarded.settle()
        assert codes(guarded.clients[0]) == [ResponseCode.SUCCESS]
        assert not guarded.sends.lane.is_open and not taken(guarded, signed(2))


class also:  # noqa: N801  # named as settings name it
    """A validator that has nothing against anybody."""

    def __init__(self, book: UserStore) -> None:
        self.book = book

    def parse(self, request: Any, peer: Any) -> None:
        return None

    def validate(self, claim: None) -> None:
        return None


@pytest.mark.parametrize("seed", range(6))
async def test_signed_bytes_bring_about_the_same_with_the_core_and_without(seed: int) -> None:
    outcomes = []
    for with_core in (False, True):
        rng = Random(seed)
        async with LaneRig(with_core, settings={"access": ACCESS}) as guarded:
            for number in range(1, 150):
                secret = "röot-secret" if rng.random() < 0.9 else "wrong"
                user = "root" if rng.random() < 0.95 else rng.choice(("", "nobody", "Root"))
                ext = {"e": str(rng.randrange(4)), "i": properties_of(rng, number, 0.3)}
                if rng.random() < 0.1:
                    ext |= rng.choice(
                        ({"ns": "x"}, {"z": "ü"}, {"ü": "1"}, {"SecurityToken": "t"}, {"_UNIQUE_KEY_QUERY": "1"})
                    )
                data = signed(number, secret, user, rng.randbytes(50), **ext)
                if rng.random() < 0.05:
                    data = data[:-1] + bytes([data[-1] ^ 1])
                guarded.arrive(rng.randrange(3), data)
                if number % 7 == 0:
                    await guarded.settle()
            await guarded.settle()
            outcomes.append(guarded.outcome())
            if with_core:
                assert len(guarded.sends.lane._admitted) == 1
    compare(outcomes[1], outcomes[0])
