"""Users on their way to a replica: who gets them, and whose are believed."""

from __future__ import annotations

import msgspec
import pytest

from pyromq.errors import ConfigError, RemoteProtocolError
from pyromq.security import handover
from pyromq.security.errors import AccessChangeError, AccessDeniedError
from pyromq.security.identity import Means, Principal, Voucher, _issue
from pyromq.security.policies import UserType, make_user
from pyromq.security.secret import Secret
from pyromq.security.settings import InnerCredentials
from pyromq.security.user_store import UserStore
from tests.conftest import CANARY

INNER = InnerCredentials("inner-broker", f"inner-{CANARY}")
OTHER = InnerCredentials("inner-broker", "another secret")


def book(*names: str) -> UserStore:
    made = UserStore()
    made.create_user(make_user("root", Secret(CANARY), UserType.SUPER))
    for name in names:
        made.create_user(make_user(name, Secret(f"{name}-{CANARY}")))
    return made


def texts(*names: str, owners: bytes = b"{}") -> handover.Texts:
    return handover.Texts(book(*names).text(), owners)


def principal(name: str = "inner-broker", means: Means = Means.SIGNATURE) -> Principal:
    return _issue(Voucher(name, means))


def test_a_replica_gets_what_it_does_not_have() -> None:
    theirs, header = texts("alice"), handover.ask("")
    answer = handover.hand_over(header, theirs, INNER)
    assert handover.take_over(answer, header, INNER) == theirs
    again = handover.ask(answer.version)
    answer = handover.hand_over(again, theirs, INNER)
    assert answer.users is None and handover.take_over(answer, again, INNER) is None


def test_equal_tables_have_equal_versions_and_others_have_others() -> None:
    known = handover.version_of(texts("alice"), INNER)
    assert known == handover.version_of(texts("alice"), INNER)
    others = [texts("bob"), texts("alice", owners=b"{ }"), handover.Texts(b"", texts("alice").users)]
    assert known not in [handover.version_of(each, INNER) for each in others]
    assert known != handover.version_of(texts("alice"), OTHER), "who does not know the secret learns nothing from it"


@pytest.mark.parametrize(
    ("name", "means"),
    [("root", Means.SIGNATURE), ("", Means.WHITE_LIST), ("inner-broker", Means.PLUG_IN), ("alice", Means.CERTIFICATE)],
)
def test_nobody_else_gets_them(name: str, means: Means) -> None:
    with pytest.raises(AccessDeniedError, match="replicas alone"):
        handover.check_replica(handover.ask(""), principal(name, means), INNER)


@pytest.mark.parametrize("means", [Means.SIGNATURE, Means.CERTIFICATE])
def test_a_request_that_was_signed_for_something_else_is_refused(means: Means) -> None:
    header = handover.ask("")
    handover.check_replica(header, principal(means=means), INNER)
    for other in ({"purpose": "DefaultCluster"}, {"purpose": ""}, {"nonce": ""}):
        with pytest.raises(AccessDeniedError, match="not signed to ask for users"):
            handover.check_replica(msgspec.structs.replace(header, **other), principal(means=means), INNER)


def test_tables_of_a_stranger_of_another_request_or_changed_on_the_way_are_not_believed() -> None:
    header = handover.ask("")
    answer = handover.hand_over(header, texts("alice"), INNER)
    forged = [
        (handover.hand_over(header, texts("mallory"), OTHER), header),
        (answer, handover.ask("")),
        (msgspec.structs.replace(answer, users=texts("mallory").users.decode()), header),
        (msgspec.structs.replace(answer, owners='{"topics":{}}'), header),
        (msgspec.structs.replace(answer, proof=""), header),
        (msgspec.structs.replace(answer, proof="ä"), header),
    ]
    for each, asked in forged:
        with pytest.raises(RemoteProtocolError, match="not from a master"):
            handover.take_over(each, asked, INNER)
    assert CANARY not in repr(answer)


def test_a_book_becomes_another_one_whole_or_stays_as_it_is() -> None:
    mine, theirs = book("mine"), book("alice", "bob")
    seen: list[int] = []
    mine.on_change.append(lambda: seen.append(mine.rules.version))
    handover.adopt(mine, handover.Texts(theirs.text(), b"{}"))
    assert set(mine.rules.users) == {"root", "alice", "bob"} and mine.text() == theirs.text() and len(seen) == 1
    handover.adopt(mine, handover.Texts(theirs.text(), b"{}"))
    assert len(seen) == 1, "nothing has changed"
    no_super = UserStore()
    no_super.create_user(make_user("alice", Secret("x")))
    damaged = [(b"{]", ValueError), (b'{"users":[{"username":" ","password":"p"}]}', ConfigError)]
    for text, error in [*damaged, (no_super.text(), AccessChangeError)]:
        with pytest.raises(error):
            handover.adopt(mine, handover.Texts(text, b"{}"))
        assert set(mine.rules.users) == {"root", "alice", "bob"} and len(seen) == 1
