"""What a command says of an error: in words of its options, with the options that are missing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyromq.cli.error_texts import NO_CREDENTIALS, advice_on, in_options
from pyromq.cli.main import main
from pyromq.errors import (
    Attempt,
    ConfigError,
    MQError,
    NameServersUnreachableError,
    NoPermissionError,
    SendFailedError,
    WrongServerError,
)
from pyromq.testing import LoopbackBroker, guarded_by
from tests.integration.guarded import ROOT

REFUSED = NoPermissionError(code=16, remark="username cannot be null.")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (NameServersUnreachableError([]), "Say where with --nameserver HOST:PORT"),
        (WrongServerError("127.0.0.1:10911"), "give that address as --nameserver"),
        (ConfigError("a message is delayed in one way, not by delay_ms and delay_level"), "not by --delay and"),
        (ConfigError("my_count_max stays what it is"), "my_count_max stays"),
    ],
)
def test_options_stand_where_functions_have_keywords(error: MQError, text: str) -> None:
    assert text in in_options(error)


@pytest.mark.parametrize("error", [REFUSED, SendFailedError("orders", [Attempt("broker-a", REFUSED)])])
def test_who_gave_no_name_hears_which_options_give_one(error: MQError) -> None:
    assert advice_on(error, {}) == NO_CREDENTIALS
    assert advice_on(error, {"PYROMQ_ACCESS_KEY": "shop"}) == ""
    assert advice_on(ConfigError("x"), {}) == ""


@pytest.fixture(scope="module")
def guarded() -> Iterator[LoopbackBroker]:
    with LoopbackBroker(guarded_by(ROOT)) as broker:
        yield broker


@pytest.mark.parametrize("args", [["topic", "ls"], ["send", "orders", "1"], ["consume", "orders"], ["group", "ls"]])
def test_commands_without_credentials_end_with_3_and_say_which_options_to_give(
    guarded: LoopbackBroker, args: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*args, "--nameserver", guarded.nameserver]) == 3
    error = capsys.readouterr().err
    assert "code 16" in error and "--access-key USER and --secret-key-file FILE" in error


@pytest.mark.parametrize("args", [["topic", "ls"], ["send", "orders", "1"]])
def test_commands_say_that_no_name_server_answers_in_words_of_options(
    args: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*args, "--nameserver", "127.0.0.1:1"]) == 4
    error = capsys.readouterr().err
    assert "--nameserver" in error and "nameservers=" not in error
