"""What shells complete: commands, contexts and live names; silence when something is wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import BashComplete

from pyromq.cli.completion import names
from pyromq.cli.contexts import ClusterContext, changing, contexts_file
from pyromq.cli.main import app, main
from pyromq.testing import LoopbackBroker


def completions(*words: str) -> list[str]:
    complete = BashComplete(app, {}, "pyromq", "_PYROMQ_COMPLETE")
    return [item.value for item in complete.get_completions(list(words[:-1]), words[-1])]


def test_commands_and_options_are_completed() -> None:
    assert completions("top") == ["top", "topic"]
    assert completions("topic", "de") == ["describe", "delete"]
    assert "--watch" in completions("topic", "ls", "--w")
    assert completions("mqadmin", "topicS") == ["topicStatus"]


def test_contexts_are_completed_from_their_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    with changing(contexts_file(os.environ)) as held:
        for name in ("prod", "proto", "dev"):
            held[0] = held[0].with_context(name, ClusterContext(nameserver="127.0.0.1:1"))
    assert completions("context", "use", "pro") == ["prod", "proto"]
    assert completions("--context", "d") == ["dev"]


def test_names_are_those_of_the_cluster_now(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyromq import Admin

    with LoopbackBroker() as broker, Admin(broker.nameserver) as admin:
        admin.topics.create("orders")
        admin.topics.create("order-events")
        admin.groups.create("billing")
        assert completions("topic", "describe", "-n", broker.nameserver, "") == ["order-events", "orders"]
        monkeypatch.setenv("PYROMQ_NAMESERVER", broker.nameserver)
        assert completions("topic", "describe", "order-") == ["order-events"]
        assert completions("topic", "describe", "SCHED") == ["SCHEDULE_TOPIC_XXXX"], "the system's if asked for"
        assert completions("group", "lag", "b") == ["billing"]
        assert completions("group", "lag", "billing", "--topic", "orders") == ["orders"]
        assert completions("mqadmin", "wipeWritePerm", "-b", "") == ["broker-a"]
        assert completions("mqadmin", "topicRoute", "-t", "orders") == ["orders"]


@pytest.mark.parametrize("nameserver", ["127.0.0.1:1", "nonsense", "", "http://127.0.0.1:1/rocketmq"])
def test_nothing_is_said_when_there_is_no_cluster(
    nameserver: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PYROMQ_NAMESERVER", nameserver or "127.0.0.1:1")
    assert completions("topic", "describe", "x") == []
    assert completions("group", "lag", "x") == []
    assert capsys.readouterr() == ("", "")


def test_a_damaged_contexts_file_completes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "pyromq").mkdir()
    (tmp_path / "pyromq/contexts.json").write_text("{")
    assert completions("context", "use", "") == []
    assert completions("topic", "describe", "x") == []


def test_names_beyond_a_bound_are_not_offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setattr(names, "_NAMES_MAX", 2)
    with changing(contexts_file(os.environ)) as held:
        for number in range(5):
            held[0] = held[0].with_context(f"c{number}", ClusterContext(nameserver="127.0.0.1:1"))
    assert completions("context", "use", "c") == ["c0", "c1"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_its_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert f"_PYROMQ_COMPLETE={shell}_complete" in script and "pyromq" in script


def test_an_unknown_shell_is_wrong_usage() -> None:
    assert main(["completion", "tcsh"]) == 1


def test_what_the_script_calls_answers_with_names_alone() -> None:
    environment = {
        **os.environ,
        "_PYROMQ_COMPLETE": "bash_complete",
        "COMP_WORDS": "pyromq topic cr",
        "COMP_CWORD": "2",
    }
    done = subprocess.run([sys.executable, "-m", "pyromq"], env=environment, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "plain,create\n", "")
