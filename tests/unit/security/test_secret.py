"""A secret is not shown by anything that shows values."""

from __future__ import annotations

import json
import logging
import pickle
import traceback
from dataclasses import dataclass, field, replace

import msgspec
import pytest

from pyromq.broker.base.config import describe
from pyromq.broker.base.settings import BrokerSettings
from pyromq.errors import ConfigError
from pyromq.nameserver.settings import NameServerSettings, describe_settings
from pyromq.security.secret import Secret
from pyromq.security.settings import AccessSettings
from pyromq.security.user_store import UserStore
from pyromq.wire.json.access import UserInfo
from tests.unit.security.people import add_user, secret_of

CANARY = "canary-5up3r-53cr37"


def test_a_secret_shows_a_mask() -> None:
    @dataclass
    class Holder:
        secret: Secret = field(default_factory=Secret)

    secret = Secret(CANARY)
    shown = [
        repr(secret),
        str(secret),
        f"{secret}",
        f"{secret!r:>40}",
        " ".join(map(str, [secret])),
        repr(Holder(secret)),
        repr([secret]),
    ]
    assert not [text for text in shown if CANARY in text]
    assert secret.reveal() == CANARY
    assert secret == Secret(CANARY) != Secret("other")
    assert not Secret() and secret and secret != CANARY


def test_a_secret_is_not_encoded() -> None:
    secret = Secret(CANARY)
    for encode in (json.dumps, msgspec.json.encode, msgspec.to_builtins, pickle.dumps):
        with pytest.raises((TypeError, NotImplementedError)) as caught:
            encode(secret)  # type: ignore[operator]
        assert CANARY not in str(caught.value)
    assert CANARY not in json.dumps({"a": secret}, default=str)


def test_settings_never_tell(caplog: pytest.LogCaptureFixture) -> None:
    access = AccessSettings(
        enabled=True,
        initial_user=Secret(f'{{"username":"root","password":"{CANARY}"}}'),
        inner_credentials=Secret(f'{{"accessKey":"inner","secretKey":"{CANARY}"}}'),
    )
    broker, names = BrokerSettings(access=access), NameServerSettings(access=access)
    logging.getLogger("test").warning("settings: %s %r", broker, names)
    shown = [repr(broker), repr(names), repr(access), str(describe(broker, "h", 1)), describe_settings(names).decode()]
    assert not [text for text in (*shown, caplog.text) if CANARY in text]
    assert describe(broker, "h", 1)["initAuthenticationUser"] == "***"
    assert access.first_user is not None and access.first_user.password == CANARY


@pytest.mark.parametrize("text", [CANARY, f'{{"username":"{CANARY}', f'{{"user":"{CANARY}"}}', f'["{CANARY}"]'])
def test_mistakes_in_secret_settings_are_told_without_them(text: str) -> None:
    for name in ("initial_user", "inner_credentials"):
        with pytest.raises(ConfigError, match="is not JSON of the form") as caught:
            replace(AccessSettings(), **{name: Secret(text)})
        told = "".join(traceback.format_exception(caught.value))
        assert CANARY not in told


def test_users_and_rules_show_no_passwords() -> None:
    book = UserStore()
    add_user(book, "alice")
    user = book.rules.users["alice"]
    for shown in (repr(book.rules), repr(user), str(user.info()), repr(UserInfo(username="a", password=CANARY))):
        assert secret_of("alice") not in shown and CANARY not in shown
    assert user.info().password is None
