from __future__ import annotations

import pytest

from pyromq.cli.servers.properties import parse_properties
from pyromq.errors import ConfigError


def pairs(text: str) -> list[tuple[str, str]]:
    return [(each.key, each.value) for each in parse_properties(text, "broker.conf")]


def test_pairs_are_read_as_java_reads_them() -> None:
    text = "\ufeff# comment\n  ! comment\n\na=1\r\n b : two words \nc.d=x=y\ne=\nf\\=g=\\u0041\\tB\\\\\n"
    assert pairs(text) == [("a", "1"), ("b", "two words"), ("c.d", "x=y"), ("e", ""), ("f=g", "A\tB\\")]


def test_a_backslash_goes_on_in_the_next_line_and_two_do_not() -> None:
    text = "namesrvAddr=a:1;\\\n    b:2;\\\n    c:3\npath=x\\\\\nlast=1\\"
    assert pairs(text) == [("namesrvAddr", "a:1;b:2;c:3"), ("path", "x\\"), ("last", "1")]


def test_the_line_of_a_pair_is_where_it_begins() -> None:
    found = parse_properties("\na=1\\\n 2\nb=3\n", "broker.conf")
    assert [each.where for each in found] == ["broker.conf, line 2", "broker.conf, line 4"]


@pytest.mark.parametrize("text", ["brokerName", "brokerName broker-a", "=1"])
def test_a_line_that_is_no_pair_is_refused_with_its_number(text: str) -> None:
    with pytest.raises(ConfigError, match=r"broker\.conf, line 2: .*key=value"):
        parse_properties(f"a=1\n{text}\n", "broker.conf")
