"""The table of threats in docs/security.md: every class names tests, and these exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pyromq.broker.base.settings import BrokerSettings
from pyromq.nameserver.settings import NameServerSettings
from tests.unit.test_docs import ROOT, table_rows

HEADING = "## Threats, and the tests that rule them out"
CVES = ("CVE-2019-17572", "CVE-2023-33246", "CVE-2023-37582", "CVE-2024-23321")
_named = re.compile(r"`([^`]+)`")


def section() -> str:
    page = (ROOT / "docs/security.md").read_text(encoding="utf-8")
    return page.partition(HEADING)[2].partition("\n## ")[0]


def rows() -> list[list[str]]:
    return table_rows(ROOT / "docs/security.md", first="class")


def file_of(name: str) -> Path | None:
    """A test is named by its path, or by the name of its file if there is one of that name only."""
    if "/" in name:
        return ROOT / name if (ROOT / name).exists() else None
    found = list(ROOT.glob(f"tests/**/{name}"))
    return found[0] if len(found) == 1 else None


def named_tests(cell: str) -> list[tuple[str, str]]:
    """Files or folders, and functions in them; ``…::name`` is in the file before."""
    found, before = [], ""
    for text in _named.findall(cell):
        if not re.match(r"(tests|interop)/|\w+\.py|…::", text):
            continue
        file, _, function = text.partition("::")
        before = before if file == "…" else file
        found.append((before, function))
    return found


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0][:50])
def test_every_class_is_ruled_out_by_tests_that_exist(row: list[str]) -> None:
    tests = named_tests(row[-1])
    assert tests, "a class without a test"
    for file, function in tests:
        path = file_of(file)
        assert path is not None, f"{file} is not there, or there are several"
        if path.is_dir():
            assert list(path.rglob("test_*.py")), path
        elif function:
            assert re.search(rf"def {re.escape(function)}\(", path.read_text(encoding="utf-8")), (file, function)
        else:
            assert "def " in path.read_text(encoding="utf-8")


def test_the_known_vulnerabilities_of_rocketmq_are_in_the_table() -> None:
    assert [number for number in CVES if number not in section()] == []


def test_servers_are_closed_to_other_machines_by_default() -> None:
    broker, names = BrokerSettings(), NameServerSettings()
    assert (broker.host, names.host, broker.metrics.host, names.metrics.host) == ("127.0.0.1",) * 4
    assert not (broker.insecure_network or names.insecure_network or broker.replication.insecure_network)
