"""Accounts of RocketMQ 4.x."""

from __future__ import annotations

import builtins
from pathlib import Path
from typing import Any

import pytest

from pyromq.errors import ConfigError
from pyromq.security.opening import FollowedFile
from pyromq.security.plain_acl import parse_plain_acl
from pyromq.security.policies import UserType
from pyromq.security.resources import Action, Need, group, topic
from pyromq.security.user_store import UserStore
from pyromq.whole_text import SystemDisk
from tests.unit.security.people import add_user

ROCKETMQS = """
globalWhiteRemoteAddresses:
  - 10.10.103.*
  - 192.168.0.*

accounts:
  - accessKey: RocketMQ
    secretKey: 12345678
    whiteRemoteAddress:
    admin: false
    defaultTopicPerm: DENY
    defaultGroupPerm: SUB
    topicPerms:
      - topicA=DENY
      - topicB=PUB|SUB
      - topicC=SUB
    groupPerms:
      # the group should convert to retry topic
      - groupA=DENY
      - groupB=PUB|SUB
      - groupC=SUB

  - accessKey: rocketmq2
    secretKey: 0123456789
    whiteRemoteAddress: 192.168.1.*
    # if it is admin, it could access all resources
    admin: true
"""


def test_the_file_that_rocketmq_ships_is_understood() -> None:
    accounts, white = parse_plain_acl(ROCKETMQS)
    book = UserStore()
    assert book.add(accounts, white) == ["RocketMQ", "rocketmq2"]
    rules = book.rules

    def may(action: Action, resource: Any) -> bool:
        return rules.verdict_of("RocketMQ", Need(resource, (action,)), "10.0.0.1").allowed

    assert may(Action.PUB, topic("topicB")) and may(Action.SUB, topic("topicB")) and may(Action.SUB, topic("topicC"))
    assert not may(Action.PUB, topic("topicC")) and not may(Action.SUB, topic("topicA"))
    assert not may(Action.PUB, topic("another"))
    assert may(Action.SUB, group("groupC")) and may(Action.SUB, group("another"))
    assert not may(Action.SUB, group("groupA")) and not may(Action.UPDATE, group("groupC"))
    admin = rules.users["rocketmq2"]
    assert admin.type is UserType.SUPER and "192.168.1.9" in admin.white_list and "192.168.2.9" not in admin.white_list
    assert admin.password.reveal() == "0123456789", "a secret is text, whatever it looks like"
    assert "10.10.103.1" in rules.white_list and "10.10.104.1" not in rules.white_list
    assert book.add(accounts, white) == [], "again changes nothing"


def test_users_that_exist_stay_as_they_are() -> None:
    book = UserStore()
    add_user(book, "RocketMQ")
    accounts, _ = parse_plain_acl(ROCKETMQS)
    assert book.add(accounts) == ["rocketmq2"]
    assert "RocketMQ" not in book.rules.policies


@pytest.mark.parametrize(
    "text",
    [
        "accounts: [{accessKey: short, secretKey: canary-secret}]",
        "accounts: [{accessKey: longenough, secretKey: canary}]",
        "accounts: [{accessKey: longenough, secretKey: canary-secret, topicPerms: [nothing]}]",
        "accounts: [{accessKey: longenough, secretKey: canary-secret, whiteRemoteAddress: 10.x}]",
        "accounts: [{accessKey: longenough, secretKey: canary-secret, admin: canary}]",
        "accounts: [{accessKey: longenough, secretKey: [canary]}]",
        "accounts: {canary: 1}",
        "accounts: [canary",
        "- canary",
        "globalWhiteRemoteAddresses: [nowhere]",
        "!!python/object/apply:os.system [canary]",
    ],
)
def test_mistakes_are_told_without_secrets(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_plain_acl(text)
    assert "canary" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_an_empty_file_has_no_accounts() -> None:
    for text in ("", "accounts:", "accounts: []\nglobalWhiteRemoteAddresses:"):
        assert parse_plain_acl(text)[0] == []


def test_unknown_permissions_deny() -> None:
    accounts, _ = parse_plain_acl("accounts: [{accessKey: longenough, secretKey: canary-secret, topicPerms: [a=ANY]}]")
    book = UserStore()
    book.add(accounts)
    assert not book.rules.verdict_of("longenough", Need(topic("a"), (Action.SUB,)), "10.0.0.1").allowed


def test_a_followed_file_is_taken_in_when_it_changes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path, book = tmp_path / "plain_acl.yml", UserStore()
    add_user(book, "root", is_super=True)
    path.write_text(ROCKETMQS)
    followed = FollowedFile(path, SystemDisk(), book)
    followed.refresh(first=True)
    assert set(book.rules.users) == {"root", "RocketMQ", "rocketmq2"}
    version = book.rules.version
    followed.refresh()
    assert book.rules.version == version
    path.write_text("accounts: [{accessKey: brandnew, secretKey: canary-secret}]")
    followed.refresh()
    assert set(book.rules.users) == {"root", "brandnew"}
    assert not book.rules.white_list
    for broken in ("accounts: [", "accounts: [{accessKey: x, secretKey: canary-secret}]"):
        path.write_text(broken)
        followed.refresh()
        followed.refresh()
    assert set(book.rules.users) == {"root", "brandnew"}
    path.unlink()
    followed.refresh()
    errors = [record for record in caplog.records if record.levelname == "ERROR"]
    assert len(errors) == 1, "told once, until it works again"
    assert "canary" not in caplog.text
    with pytest.raises(ConfigError, match="cannot be used"):
        followed.refresh(first=True)


def test_without_pyyaml_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def missing(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "yaml":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(ConfigError, match=r"pyromq\[acl\]"):
        parse_plain_acl(ROCKETMQS)
