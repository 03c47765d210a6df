"""mqadmin's words: versions, times, switches, and what is said of sub-commands that are not here."""

from __future__ import annotations

import click
import pytest

from pyromq.cli.main import main
from pyromq.cli.mqadmin.commands import NOT_HERE, PLACES, advice_for
from pyromq.cli.mqadmin.options import BrokersOptions, attributes_in, switch
from pyromq.cli.mqadmin.printing import exact_time_text, line, time_in, time_text, version_text


@pytest.mark.parametrize(
    ("ordinal", "text"),
    [
        (479, "V5_3_3"),
        (413, "V5_0_0"),
        (493, "V5_4_0"),
        (317, "V4_5_2"),
        (399, "V4_9_3"),
        (213, "V4_0_0"),
        (232, "V4_1_0_SNAPSHOT"),
        (121, "V3(121)"),
    ],
)
def test_versions_have_their_names(ordinal: int, text: str) -> None:
    assert version_text(ordinal) == text


def test_times_are_read_as_mqadmin_writes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = exact_time_text(1_700_000_000_123)
    day, _, hour = shown.partition(" ")
    assert time_in(f"{day}#{hour.replace(',', ':')}") == 1_700_000_000_123
    assert time_in(f"{day}#{hour.partition(',')[0]}") == 1_700_000_000_000
    assert time_in("1700000000123") == 1_700_000_000_123
    assert (time_text(0), time_text(-1), exact_time_text(0)) == ("N/A", "N/A", "")
    for text in ("2026-13-01#00:00:00:000", "yesterday noon", ""):
        with pytest.raises(click.BadParameter, match="is not a time"):
            time_in(text)


def test_switches_have_values() -> None:
    assert (switch("true"), switch("FALSE", default=True), switch("", default=True), switch("")) == (
        True,
        False,
        True,
        False,
    )
    with pytest.raises(click.BadParameter):
        switch("yes")
    assert attributes_in("+message.type=FIFO, +a=b") == {"message.type": "FIFO", "a": "b"}
    for text in ("-a", "a=b", "+a"):
        with pytest.raises(click.BadParameter, match=r"\+name=value"):
            attributes_in(text)
    BrokersOptions(broker="h:1")
    for broker, cluster in (("", ""), ("h:1", "c")):
        with pytest.raises(click.UsageError):
            BrokersOptions(broker=broker, cluster=cluster)


def test_lines_cannot_move_the_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    line("%-4s|%d|%s", "a", 5, "x\x1b[2J")
    line("%-10s", "100%")
    assert capsys.readouterr().out == "a   |5|x\\x1b[2J\n100%\n"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("getSyncStateSet", "mqadmin's getSyncStateSet is not supported: use pyromq cluster replication"),
        ("electMaster", "not supported, and nothing replaces it"),
        ("topiclist", "did you mean topicList"),
        ("queryMsgByID", "did you mean queryMsgById"),
        ("zzz", "see pyromq mqadmin --help"),
        ("", "see pyromq mqadmin --help"),
    ],
)
def test_a_sub_command_that_is_not_here_names_the_nearest(
    name: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert text in advice_for(name)
    assert main(["mqadmin", name, "-n", "127.0.0.1:1"]) == 1
    assert text in capsys.readouterr().err


def test_every_sub_command_of_mqadmin_is_here_or_is_told() -> None:
    assert not set(PLACES) & set(NOT_HERE)
    assert len(set(PLACES) - {"help"}) + len(set(NOT_HERE) - {"queryConsumeQueue"}) == 96, "mqadmin 5.5.0 has 96"
    for instead in filter(None, NOT_HERE.values()):
        assert instead.startswith("pyromq ")


def test_help_is_shown_as_mqadmin_does(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["help", "topicRoute"], ["topicRoute", "-h"], ["topicRoute", "--help"]):
        assert main(["mqadmin", *words]) == 0
        assert "Usage: pyromq mqadmin topicRoute" in capsys.readouterr().out
    assert main(["mqadmin", "help"]) == 0
    assert "updateTopic" in capsys.readouterr().out
    assert main(["mqadmin", "help", "electMaster"]) == 1
