"""The page about dependencies names each of them, with a licence that its own metadata confirms."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PAGE = (ROOT / "docs/reference/dependencies.md").read_text(encoding="utf-8")
FAMILIES = {
    "Apache": "Apache",
    "BSD": "BSD",
    "MIT": "MIT",
    "PSF": "PSF",
    "LGPL": r"LGPL|Lesser",
    "GPL": r"GPL|General Public",
}
NOT_INSTALLED = {"pyromq-core", "apache-airflow-providers-common-messaging"}


def rows() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in PAGE.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and cells[0] not in ("package", "---"):
            found |= dict.fromkeys(cells[0].split(", "), cells)
    return found


def wanted() -> dict[str, set[str]]:
    """Every distribution that an installation may bring directly, with its extras; an empty set for the core."""
    found = {Requirement(text).name.lower(): set[str]() for text in PROJECT["dependencies"]}
    for extra, texts in PROJECT["optional-dependencies"].items():
        for requirement in map(Requirement, texts):
            if requirement.name != "pyromq":
                found.setdefault(requirement.name.lower(), set()).add(extra)
    return found


def test_every_dependency_has_its_row_and_no_row_is_left_over() -> None:
    assert set(rows()) == set(wanted())


@pytest.mark.parametrize("name", sorted(wanted()))
def test_a_row_names_extra_reason_and_licence(name: str) -> None:
    cells = rows()[name]
    extras = wanted()[name]
    if extras:
        assert set(re.findall(r"`([\w-]+)`", cells[1])) == extras - {"all"}
    assert all(cells), "a cell is empty"
    licence = cells[-3]
    family = next(each for each in FAMILIES if each in licence)
    if name in NOT_INSTALLED:
        return
    try:
        told = metadata(name)
    except PackageNotFoundError:
        pytest.fail(f"{name} is not installed with the tests")
    own = " ".join([told.get("License-Expression") or told.get("License") or "", *told.get_all("Classifier", [])])
    assert re.search(FAMILIES[family], own), f"{name} says {own[:200]}"
