"""The order of a release: which versions are taken, what is written, and that a dry run changes nothing."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from release.building import ReleaseError
from release.steps import check_version, edits, present_version, unreleased

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("wanted", ["0.1.0", "0.1.0rc1", "1.0.0"])
def test_a_newer_version_is_taken(wanted: str) -> None:
    check_version(wanted, "0.1.0.dev0")


@pytest.mark.parametrize(
    "wanted", ["0.0.9", "0.1.0.dev0", "0.1.0.dev1", "v0.1.0", "0.1.0+local", "next", "0.1.0-rc1", ""]
)
def test_other_versions_are_refused_with_a_reason(wanted: str) -> None:
    with pytest.raises(ReleaseError, match=r"version|newer|form"):
        check_version(wanted, "0.1.0.dev0")


def test_a_release_writes_its_version_everywhere() -> None:
    written = {
        file: edit((ROOT / file).read_text(encoding="utf-8")) for file, edit in edits("0.2.0rc1", "2026-12-01").items()
    }
    project = tomllib.loads(written["pyproject.toml"])["project"]
    assert project["version"] == "0.2.0rc1"
    assert project["optional-dependencies"]["fast"] == ["pyromq-core==0.2.0rc1"]
    assert tomllib.loads(written["core/pyproject.toml"])["project"]["version"] == "0.2.0rc1"
    crate = tomllib.loads(written["core/Cargo.toml"])
    assert crate["package"]["version"] == "0.2.0-rc.1"
    assert (
        crate["package"]["rust-version"]
        == tomllib.loads((ROOT / "core/Cargo.toml").read_text())["package"]["rust-version"]
    )
    assert "## Unreleased\n\n## 0.2.0rc1 (2026-12-01)\n" in written["CHANGELOG.md"]


def test_the_changelog_says_what_is_not_released(tmp_path: Path) -> None:
    changelog = tmp_path / "CHANGELOG.md"
    changelog.write_text("# Changelog\n\n## Unreleased\n\n- quicker\n\n## 0.1.0 (2026-12-01)\n\n- first\n")
    assert unreleased(tmp_path) == "- quicker"
    changelog.write_text("# Changelog\n\n## Unreleased\n\n## 0.1.0 (2026-12-01)\n\n- first\n")
    assert unreleased(tmp_path) == "", "as after every release"


def test_the_present_version_is_that_of_the_project() -> None:
    assert present_version(ROOT) == tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


def test_an_sdist_leaves_out_what_git_ignores() -> None:
    """A release is built in a tree below ``.cache``, where hatchling does not look at ``.gitignore``."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    excluded = project["tool"]["hatch"]["build"]["targets"]["sdist"]["exclude"]
    assert sorted(excluded) == sorted((ROOT / ".gitignore").read_text(encoding="utf-8").split())
