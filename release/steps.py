"""The steps of a release, in a clean clone of the commit that would be released.

    look      the version is newer, the tree is committed, the changelog tells something, the repository has an address
    write     version and changelog, as a commit of the clone
    surface   public names are as recorded
    tests     make check test test-more
    wheels    build, check, build again
    smoke     install and use them with every Python of this machine
    docs      the site builds without a warning

Only when all of them held, and this is no dry run, the commit and a tag come into the working repository. Publishing
is a person's act; the last lines say how.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from packaging.version import InvalidVersion, Version

from release.build_hook import HOME_FILE, home
from release.building import ROOT, ReleaseError, commit_time, run

TREE: Final = ROOT / ".cache/release-tree"
_VERSION: Final = re.compile(r'^version = "(.+)"$', re.MULTILINE)
_CORE: Final = re.compile(r"pyromq-core==[\w.]+")


@dataclass(frozen=True)
class Release:
    """What is to be released; ``is_dry`` changes nothing outside the clone."""

    version: str
    is_dry: bool = False
    skipped: tuple[str, ...] = ()


def carry_out(release: Release) -> None:
    """Take every step; raises ReleaseError at the first that does not hold."""
    steps: list[tuple[str, Callable[[], None]]] = [
        ("look", lambda: look(release)),
        ("write", lambda: write(release)),
        ("surface", lambda: _make("surface-check")),
        ("tests", lambda: _make("check", "test", "test-more")),
        ("wheels", lambda: _make("wheels")),
        ("smoke", lambda: _make("smoke")),
        ("docs", lambda: _make("docs")),
    ]
    for name, step in steps:
        if name in release.skipped:
            print(f"release: {name}: SKIPPED", flush=True)
            continue
        print(f"release: {name}", flush=True)
        step()
    if release.is_dry or release.skipped:
        outcome = "needs every step" if release.skipped else "could be tagged"
        print(f"release: nothing was changed; {release.version} {outcome}")
        return
    tag(release)


def look(release: Release) -> None:
    """The version is newer than the present one, and everything is committed and told."""
    check_version(release.version, present_version(ROOT))
    if dirty := run("git", "status", "--porcelain").strip():
        raise ReleaseError(f"commit or remove first:\n{dirty}")
    if not unreleased(ROOT):
        raise ReleaseError("CHANGELOG.md tells nothing under Unreleased: what is new in this version?")
    if not home(ROOT) and not release.is_dry:
        raise ReleaseError(
            f"write the address of the public repository into {HOME_FILE} and commit it: package indexes show links"
        )


def check_version(wanted: str, present: str) -> None:
    """Raises ReleaseError unless ``wanted`` is a version that is newer than ``present``."""
    try:
        version = Version(wanted)
    except InvalidVersion as error:
        raise ReleaseError(f"{wanted!r} is not a version: make release VERSION=0.1.0") from error
    if str(version) != wanted or version.is_devrelease or version.local:
        raise ReleaseError(
            f"{wanted!r} is not the form of a release: MAJOR.MINOR.PATCH, with rc1 behind it for a candidate"
        )
    if version <= Version(present):
        raise ReleaseError(f"{wanted} is not newer than {present}")


def present_version(root: Path) -> str:
    found = _VERSION.search((root / "pyproject.toml").read_text(encoding="utf-8"))
    assert found is not None
    return found[1]


def unreleased(root: Path) -> str:
    """The changelog's part for what is not released yet."""
    text = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    return text.partition("\n## Unreleased\n")[2].partition("\n## ")[0].strip()


def write(release: Release) -> None:
    """Clone the commit, and commit version and changelog there."""
    shutil.rmtree(TREE, ignore_errors=True)
    run("git", "clone", "--quiet", ROOT, TREE)
    when = datetime.fromtimestamp(int(commit_time()), UTC).date().isoformat()
    for file, edit in edits(release.version, when).items():
        path = TREE / file
        path.write_text(edit(path.read_text(encoding="utf-8")), encoding="utf-8")
    run("git", "commit", "--all", "--quiet", "--message", f"Release {release.version}", cwd=TREE)


def edits(version: str, when: str) -> dict[str, Callable[[str], str]]:
    """What a release changes in which file."""
    parsed = Version(version)
    crate = parsed.base_version + (f"-{parsed.pre[0]}.{parsed.pre[1]}" if parsed.pre else "")  # Cargo's form

    def project(text: str) -> str:
        return _CORE.sub(f"pyromq-core=={version}", _VERSION.sub(f'version = "{version}"', text, count=1))

    return {
        "pyproject.toml": project,
        "core/pyproject.toml": lambda text: _VERSION.sub(f'version = "{version}"', text, count=1),
        "core/Cargo.toml": lambda text: _VERSION.sub(f'version = "{crate}"', text, count=1),
        "CHANGELOG.md": lambda text: text.replace("## Unreleased\n", f"## Unreleased\n\n## {version} ({when})\n", 1),
    }


def tag(release: Release) -> None:
    """Bring the commit into this repository and tag it, signed where git has a key for it."""
    run("git", "pull", "--quiet", "--ff-only", TREE, "HEAD")
    name = f"v{release.version}"
    signs = bool(
        subprocess.run(["git", "config", "user.signingkey"], cwd=ROOT, capture_output=True, check=False).stdout
    )
    run("git", "tag", "--sign" if signs else "--annotate", "--message", f"PyroMQ {release.version}", name)
    shutil.copytree(TREE / "dist", ROOT / "dist", dirs_exist_ok=True)
    print(f"release: {name} {'is signed' if signs else 'is NOT SIGNED: set git config user.signingkey'}; files: dist/")
    print(f"release: next, by a person:\n  git push origin main {name}")
    print("The workflow .github/workflows/release.yml then builds the same files again, attests and publishes them.")


def _make(*targets: str) -> None:
    environment = {key: value for key, value in os.environ.items() if key not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    if subprocess.run(["make", *targets], cwd=TREE, env=environment, check=False).returncode:
        raise ReleaseError(f"make {' '.join(targets)} failed in {TREE}")
