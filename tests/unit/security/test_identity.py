"""Principals come from verification only."""

from __future__ import annotations

import copy
import pickle
import re
from pathlib import Path
from typing import Any

import pytest

import pyromq
from pyromq.errors import ConfigError
from pyromq.security import identity
from pyromq.security.errors import AccessDeniedError
from pyromq.security.identity import Means, Peer, Principal, Voucher, verify
from pyromq.security.user_store import UserStore
from pyromq.security.validators import CertificateValidator, SignatureValidator, load_validators
from pyromq.wire.codes import RequestCode as Code
from pyromq.wire.received import Received
from tests.unit.security.people import add_user, request, send_fields

HERE = Peer("10.1.2.3")


def test_a_principal_cannot_be_made_by_hand() -> None:
    for arguments in ((), ("root",), ("root", Means.SIGNATURE)):
        with pytest.raises(TypeError, match="outcome of a verification"):
            Principal(*arguments)


def test_a_principal_cannot_be_copied_changed_or_pickled() -> None:
    book = UserStore()
    add_user(book, "alice")
    found = verify([SignatureValidator(book)], request(Code.SEND_MESSAGE_V2, send_fields("t"), user="alice"), HERE)
    assert (found.name, found.means) == ("alice", Means.SIGNATURE)
    with pytest.raises(AttributeError):
        found.name = "root"
    with pytest.raises(TypeError):
        copy.copy(found)
    with pytest.raises(TypeError):
        pickle.dumps(found)


def test_nothing_else_in_the_package_issues_principals() -> None:
    root = Path(pyromq.__file__).parent
    users = [
        str(path.relative_to(root))
        for path in root.rglob("*.py")
        if re.search(r"_issue\b|object\.__new__\(\s*(_CLASS|Principal)", path.read_text(encoding="utf-8"))
    ]
    assert users == ["security/identity.py"]
    assert identity.__name__ == "pyromq.security.identity"


class Says:
    """A validator of somebody's own."""

    def __init__(self, voucher: Voucher | None) -> None:
        self.voucher = voucher
        self.parsed: list[str] = []

    def parse(self, request: Received[Any], peer: Peer) -> str:
        self.parsed.append(peer.ip)
        return peer.ip

    def validate(self, claim: str) -> Voucher | None:
        return self.voucher


class Refuses(Says):
    def validate(self, claim: str) -> Voucher | None:
        raise AccessDeniedError("not at night")


def test_all_validators_must_pass_and_agree() -> None:
    received = request(Code.SEND_MESSAGE_V2, send_fields("t"))
    alice, nobody = Says(Voucher("alice", Means.PLUG_IN)), Says(None)
    assert verify([nobody, alice, nobody], received, HERE).name == "alice"
    assert nobody.parsed == [HERE.ip] * 2
    with pytest.raises(AccessDeniedError, match="not at night"):
        verify([alice, Refuses(None)], received, HERE)
    with pytest.raises(AccessDeniedError, match="signed by 'bob'"):
        verify([alice, Says(Voucher("bob", Means.PLUG_IN))], received, HERE)
    for none in ([], [nobody]):
        with pytest.raises(AccessDeniedError, match="no validator"):
            verify(none, received, HERE)


def test_a_certificate_names_a_user_that_exists() -> None:
    book = UserStore()
    add_user(book, "alice")
    received = request(Code.SEND_MESSAGE_V2, send_fields("t"))
    validators = [CertificateValidator(book)]
    found = verify(validators, received, Peer("10.1.2.3", "alice"))
    assert (found.name, found.means) == ("alice", Means.CERTIFICATE)
    for subject in ("", "mallory"):
        with pytest.raises(AccessDeniedError):
            verify(validators, received, Peer("10.1.2.3", subject))
    signed = request(Code.SEND_MESSAGE_V2, send_fields("t"), user="alice")
    both = [SignatureValidator(book), CertificateValidator(book)]
    assert verify(both, signed, Peer("10.1.2.3", "alice")).name == "alice"
    with pytest.raises(AccessDeniedError):
        verify(both, signed, HERE)


def test_validators_are_loaded_by_name() -> None:
    book = UserStore()
    found = load_validators(["signature", "tests.unit.security.test_identity:of_this_test"], book)
    assert [type(each).__name__ for each in found] == ["SignatureValidator", "Says"]
    for names in ([], ["signatur"], ["no.such.module:x"], ["tests.unit.security.test_identity:nothing"]):
        with pytest.raises(ConfigError):
            load_validators(names, book)


def of_this_test(_: UserStore) -> Says:
    return Says(None)
