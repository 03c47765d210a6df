"""Contexts with credentials against a guarded cluster, and mqadmin's users and policies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pyromq import Admin
from pyromq.cli.main import main
from pyromq.testing import LoopbackBroker
from tests.integration.guarded import ROOT, guarded_broker

pytestmark = pytest.mark.integration


@pytest.fixture
def broker() -> Iterator[LoopbackBroker]:
    with guarded_broker() as broker:
        yield broker


@pytest.fixture
def typed(
    broker: LoopbackBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    """In a home of its own, with the context ``guarded`` in use."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "key").write_text(ROOT.secret_key + "\n")

    def typed(*words: str, expect: int = 0) -> str:
        capsys.readouterr()
        code = main(words)
        out, err = capsys.readouterr()
        assert ROOT.secret_key not in out + err
        assert code == expect, err + out
        return out or err

    key = ("--access-key", ROOT.access_key, "--secret-key-file", str(tmp_path / "key"))
    typed("context", "add", "guarded", "-n", broker.nameserver, *key)
    return typed


def test_a_context_signs_requests_and_nobody_else_gets_in(
    typed: Callable[..., str], broker: LoopbackBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    typed("topic", "create", "orders")
    assert "orders" in typed("topic", "ls")
    typed("context", "add", "stranger", "-n", broker.nameserver)
    typed("--context", "stranger", "topic", "ls", expect=3)
    monkeypatch.setenv("PYROMQ_ACCESS_KEY", "somebody")  # a variable wins over the context in use, password and all
    typed("topic", "ls", expect=1)
    assert "orders" in typed("--context", "guarded", "topic", "ls"), "a context that is named wins over variables"
    monkeypatch.delenv("PYROMQ_ACCESS_KEY")
    typed("context", "use", "stranger")
    typed("topic", "ls", expect=3)


def test_mqadmin_manages_users_and_policies(typed: Callable[..., str], broker: LoopbackBroker) -> None:
    at = ("-b", broker.address)
    made = typed("mqadmin", "createUser", *at, "-u", "ann", "-p", "ann-p4ss", "-t", "Normal")
    assert made == f"create user to {broker.address} success.\n"
    listed = typed("mqadmin", "listUser", *at)
    assert listed.splitlines()[0].split() == ["#UserName", "#Password", "#UserType", "#UserStatus"]
    assert ["ann", "***", "Normal", "enable"] in [line.split() for line in listed.splitlines()]
    assert "ann-p4ss" not in listed
    typed("mqadmin", "updateUser", "-c", "DefaultCluster", "-u", "ann", "-s", "disable")
    assert typed("mqadmin", "getUser", *at, "-u", "ann").split()[-1] == "disable"
    acl = ("-s", "User:ann", "-r", "Topic:t1,Group:g*", "-a", "Pub,Sub", "-d", "Allow", "-i", "127.0.0.0/8")
    typed("mqadmin", "createAcl", *at, *acl)
    with Admin(broker.nameserver, credentials=ROOT) as admin:
        admin.access.update_user("ann", enabled=True)
        assert admin.access.explain("ann", "Sub", "Group:g1").allowed
        assert not admin.access.explain("ann", "Sub", "Group:g1", ip="10.0.0.1").allowed
    shown = typed("mqadmin", "listAcl", *at, "-s", "ann")
    assert "Topic:t1" in shown and "Group:g*" in shown and "[Pub, Sub]" in shown
    assert "Topic:t1" in typed("mqadmin", "getAcl", *at, "-s", "User:ann")
    typed("mqadmin", "updateAcl", *at, "-s", "User:ann", "-r", "Topic:t1", "-a", "Pub", "-d", "Deny")
    typed("mqadmin", "deleteAcl", *at, "-s", "User:ann", "-r", "Group:g*")
    left = typed("mqadmin", "listAcl", *at, "-r", "t1")
    assert "Deny" in left and "Group:" not in left
    typed("mqadmin", "deleteAcl", *at, "-s", "User:ann")
    typed("mqadmin", "deleteUser", *at, "-u", "ann")
    typed("mqadmin", "getUser", *at, "-u", "ann", expect=2)
    for wrong in (("-u", "x"), ("-u", "x", "-t", "King"), ("-u", "x", "-s", "on")):
        typed("mqadmin", "updateUser", *at, *wrong, expect=1)
    typed("mqadmin", "createAcl", *at, "-s", "ann", "-r", "Topic:t", "-a", "Pub", "-d", "Allow", expect=1)
    typed("mqadmin", "createAcl", *at, "-s", "User:ann", "-r", "Topic:t", "-a", "Pub", "-d", "Maybe", expect=1)
    typed("mqadmin", "listUser", expect=1)
