"""Contexts: where they are kept, who may read them, which of option, variable and context counts."""

from __future__ import annotations

import json
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pyromq.cli.contexts import (
    ClusterContext,
    Contexts,
    changing,
    chosen_variables,
    contexts_file,
    read_contexts,
    variables_for,
)
from pyromq.cli.main import main
from pyromq.errors import ConfigError
from tests.conftest import CANARY

PROD = ClusterContext(nameserver="10.0.0.1:9876", access_key="ann", secret_key=CANARY, tls=True, tls_ca="/ca.pem")


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return contexts_file(os.environ)


def put(file: Path, name: str, context: ClusterContext = PROD, *, use: bool = True) -> None:
    with changing(file) as held:
        held[0] = held[0].with_context(name, context)
        if use:
            held[0] = held[0].using(name)


def test_a_context_is_kept_for_its_owner_alone(file: Path) -> None:
    put(file, "prod")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert read_contexts(file) == Contexts("prod", {"prod": PROD})
    assert [each.name for each in file.parent.iterdir()] == ["contexts.json"], "nothing is left beside it"


def test_without_a_file_there_are_none(file: Path) -> None:
    assert read_contexts(file) == Contexts()
    assert chosen_variables("", {"XDG_CONFIG_HOME": str(file.parent)}, frozenset()) == {}


def test_a_relative_configuration_folder_is_not_one() -> None:
    assert contexts_file({"XDG_CONFIG_HOME": "here"}) == Path.home() / ".config/pyromq/contexts.json"


def test_a_file_that_others_may_read_is_refused(file: Path) -> None:
    put(file, "prod")
    file.chmod(0o640)
    with pytest.raises(ConfigError, match="chmod 600"):
        read_contexts(file)
    assert main(["topic", "ls"]) == 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "nonsense " + CANARY,
        '{"contexts": []}',
        '{"contexts": {"a": 1}}',
        '{"contexts": {"a": {}}}',
        '{"contexts": {"a": {"nameserver": 5}}}',
        '{"contexts": {"a": {"nameserver": "x", "tls": "yes"}}}',
        '{"current": 4, "contexts": {}}',
        "\udcff",
    ],
)
def test_a_damaged_file_is_told_without_what_it_says(file: Path, text: str) -> None:
    file.parent.mkdir()
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    file.chmod(0o600)
    with pytest.raises(ConfigError, match="is damaged") as raised:
        read_contexts(file)
    assert CANARY not in str(raised.value)


def test_what_a_later_version_writes_is_passed_over(file: Path) -> None:
    file.parent.mkdir()
    file.write_text('{"current": "gone", "new": 1, "contexts": {"a": {"nameserver": "h:1", "colour": "red"}}}')
    file.chmod(0o600)
    assert read_contexts(file) == Contexts("", {"a": ClusterContext(nameserver="h:1")})


def test_a_file_that_is_too_long_is_not_read(file: Path) -> None:
    file.parent.mkdir()
    file.write_bytes(b" " * (1 << 21))
    file.chmod(0o600)
    with pytest.raises(ConfigError, match="longer than"):
        read_contexts(file)


def test_a_change_that_fails_leaves_the_old_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(file, "prod")
    before = file.read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(ConfigError, match="No space left"):
        put(file, "other")
    assert file.read_bytes() == before
    assert [each.name for each in file.parent.iterdir()] == ["contexts.json"]


def test_changes_at_the_same_time_are_all_kept(file: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda number: put(file, f"c{number}", use=False), range(24)))
    assert set(read_contexts(file).by_name) == {f"c{number}" for number in range(24)}


@pytest.mark.parametrize("name", ["", "-", "a b", "../x", "a/b", "x" * 65, "é"])
def test_a_name_that_cannot_be_typed_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="not a name"):
        Contexts().with_context(name, PROD)


# --- what counts -----------------------------------------------------------------------------------------------------


def test_the_context_in_use_gives_what_no_variable_says() -> None:
    assert variables_for(PROD, {}, is_chosen=False, given=frozenset()) == {
        "PYROMQ_NAMESERVER": "10.0.0.1:9876",
        "PYROMQ_ACCESS_KEY": "ann",
        "PYROMQ_SECRET_KEY": CANARY,
        "PYROMQ_TLS": "true",
        "PYROMQ_TLS_CA": "/ca.pem",
    }


@pytest.mark.parametrize("variable", ["PYROMQ_NAMESERVER", "NAMESRV_ADDR"])
def test_a_variable_wins_over_the_context_in_use(variable: str) -> None:
    found = variables_for(PROD, {variable: "dev:9876"}, is_chosen=False, given=frozenset())
    assert "PYROMQ_NAMESERVER" not in found and found["PYROMQ_ACCESS_KEY"] == "ann"


def test_nobody_gets_the_password_of_somebody_else() -> None:
    environment = {"PYROMQ_ACCESS_KEY": "bob"}
    assert "PYROMQ_SECRET_KEY" not in variables_for(PROD, environment, is_chosen=False, given=frozenset())
    by_option = variables_for(PROD, {}, is_chosen=False, given=frozenset({"PYROMQ_ACCESS_KEY"}))
    assert "PYROMQ_SECRET_KEY" not in by_option


def test_a_context_that_was_named_wins_over_variables_whole() -> None:
    environment = {
        "PYROMQ_NAMESERVER": "dev:9876",
        "NAMESRV_ADDR": "dev2:9876",
        "PYROMQ_ACCESS_KEY": "bob",
        "PYROMQ_SECRET_KEY_FILE": "/bob",
        "PYROMQ_TLS": "true",
    }
    plain = ClusterContext(nameserver="10.0.0.1:9876")
    assert variables_for(plain, environment, is_chosen=True, given=frozenset()) == {
        "PYROMQ_NAMESERVER": "10.0.0.1:9876",
        "NAMESRV_ADDR": "",
        "PYROMQ_ACCESS_KEY": "",
        "PYROMQ_SECRET_KEY_FILE": "",
        "PYROMQ_TLS": "",
    }


def test_the_variable_names_a_context_too(file: Path) -> None:
    put(file, "prod")
    put(file, "dev", ClusterContext(nameserver="dev:9876"))
    environment = {**os.environ, "PYROMQ_CONTEXT": "prod"}
    assert chosen_variables("", environment, frozenset())["PYROMQ_NAMESERVER"] == "10.0.0.1:9876"
    assert chosen_variables("dev", environment, frozenset())["PYROMQ_NAMESERVER"] == "dev:9876"
    with pytest.raises(ConfigError, match="there are: dev, prod"):
        chosen_variables("stage", environment, frozenset())


# --- as it is typed --------------------------------------------------------------------------------------------------


def test_contexts_are_added_used_listed_and_removed(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["context", "add", "dev", "-n", "dev:9876"]) == 0
    assert "context dev is in use" in capsys.readouterr().err, "the first one is"
    assert main(["context", "add", "prod", "-n", "a:9876;b:9876", "--tls-ca", "ca.pem"]) == 0
    assert main(["context", "add", "prod", "-n", "c:9876"]) == 1
    assert "--replace" in capsys.readouterr().err
    assert main(["context", "use", "prod"]) == 0
    capsys.readouterr()
    assert main(["context", "ls", "-o", "jsonl"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["name"], row["in_use"], row["tls"]) for row in rows] == [("dev", False, False), ("prod", True, True)]
    assert rows[1]["tls_ca"] == str(Path("ca.pem").absolute()), "it is found from other folders, too"
    assert main(["context", "show"]) == 0
    assert json.loads(capsys.readouterr().out)["name"] == "prod"
    assert main(["context", "rm", "prod"]) == 1
    assert "nothing was done" in capsys.readouterr().err
    assert main(["context", "rm", "prod", "--yes"]) == 0
    assert read_contexts(file).current == ""
    assert main(["context", "show"]) == 1
    assert main(["context", "use", "prod"]) == 1
    assert main(["context", "use", "-"]) == 0


def test_a_secret_reaches_no_output(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What a test captures is searched for the canary besides, see ``conftest``."""
    key = tmp_path / "key"
    key.write_text(CANARY + "\n")
    assert main(["context", "add", "a", "-n", "127.0.0.1:1", "--access-key", "ann", "--secret-key", CANARY]) == 0
    assert main(["context", "add", "b", "-n", "127.0.0.1:1", "--access-key", "ann", "--secret-key-file", str(key)]) == 0
    calls = [
        *(["context", "ls", "-o", form] for form in ("table", "json", "jsonl", "csv")),
        *(["context", "show", name, "-o", form] for name in "ab" for form in ("table", "json", "jsonl", "csv")),
        ["context", "add", "a", "--access-key", "ann", "--secret-key", CANARY],
        ["--context", "a", "topic", "ls"],
        ["--context", "b", "doctor"],
        ["--context", "nosuch", "topic", "ls"],
        ["context", "rm", "a"],
        ["topic", "ls", "--help"],
    ]
    for words in calls:
        main(words)
        out = capsys.readouterr()
        assert CANARY not in out.out + out.err, words
    assert CANARY not in repr(read_contexts(file)) and CANARY not in str(PROD)
    assert CANARY in file.read_text(), "it is kept there, and only there"
    assert file.read_text().count(CANARY) == 1, "a password file is named, and not copied"


def test_a_password_needs_a_user_and_a_user_a_password(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["context", "add", "a", "--secret-key", CANARY]) == 1
    assert main(["context", "add", "a", "--access-key", "ann"]) == 1
    assert "--secret-key-file" in capsys.readouterr().err
    assert main(["context", "add", "a", "-n", " ; "]) == 1
    assert main(["context", "add", "a", "-n", "no port"]) == 1
    assert not read_contexts(file).by_name


def test_commands_talk_to_the_cluster_of_the_context(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(file, "prod", ClusterContext(nameserver="127.0.0.1:1"))
    put(file, "dev", ClusterContext(nameserver="127.0.0.1:2"))
    assert main(["topic", "ls"]) == 4
    assert "127.0.0.1:2" in capsys.readouterr().err
    assert main(["--context", "prod", "topic", "ls"]) == 4
    assert "127.0.0.1:1" in capsys.readouterr().err
    assert main(["--context", "prod", "topic", "ls", "-n", "127.0.0.1:3"]) == 4
    assert "127.0.0.1:3" in capsys.readouterr().err, "an option wins over everything"
    assert "PYROMQ_NAMESERVER" not in os.environ, "the environment is as it was"


@pytest.mark.parametrize("words", [["up"], ["broker"], ["store", "check", "."], ["context", "ls"]])
def test_servers_and_local_commands_take_no_context(
    words: list[str], file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(file, "prod")
    assert main(["--context", "prod", *words]) == 1
    assert "talks to no cluster" in capsys.readouterr().err
