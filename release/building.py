"""Sdists and wheels of pyromq and pyromq-core, the same bytes for the same commit.

    dist/pyromq-V.tar.gz        dist/pyromq-V-py3-none-any.whl
    dist/pyromq_core-V.tar.gz   dist/pyromq_core-V-cp311-abi3-manylinux_2_17_x86_64.whl

The core is built from a staged copy of its folder to which the licence of this project and those of every crate that is
linked into it were added. zig links it as an old system would, so that the wheel loads on glibc 2.17 and later.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from release.build_hook import home, project_links

ROOT: Final = Path(__file__).parents[1]
_OLDEST_GLIBC: Final = "manylinux2014"
_LICENCE_FILE: Final = re.compile(r"(LICEN[CS]E|COPYING|COPYRIGHT|NOTICE|UNLICENSE)", re.IGNORECASE)


class ReleaseError(Exception):
    """A step of the release did not hold; the text says what to do."""


def run(*command: str | Path, cwd: Path = ROOT, env: Mapping[str, str] | None = None) -> str:
    """Output of a command; raises ReleaseError with what it printed when it fails."""
    done = subprocess.run(
        [str(each) for each in command],
        cwd=cwd,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise ReleaseError(
            f"{' '.join(str(each) for each in command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
        )
    return done.stdout


def commit_time() -> str:
    """Seconds of the last commit, which stand for "now" in archives (SOURCE_DATE_EPOCH)."""
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return given
    return run("git", "log", "-1", "--format=%ct").strip()


def tool(name: str) -> Path:
    """A program of the environment that runs this."""
    return Path(sys.executable).parent / name


def build_pure(folder: Path) -> list[Path]:
    """Sdist and wheel of pyromq; the wheel is built from the sdist, as installers may do."""
    before = set(_files(folder))
    run(sys.executable, "-m", "build", "--outdir", folder, ROOT, env={"SOURCE_DATE_EPOCH": commit_time()})
    return sorted(set(_files(folder)) - before) or sorted(_files(folder))


def build_core(folder: Path, *, portable: bool = True) -> list[Path]:
    """Sdist and wheel of pyromq-core; ``portable=False`` links against this machine's libc, without zig."""
    staged = stage_core(ROOT / ".cache/release-core")
    manifest = ["--manifest-path", staged / "Cargo.toml", "--out", folder]
    environment = {"SOURCE_DATE_EPOCH": commit_time(), "CARGO_TARGET_DIR": str(ROOT / ".cache/release-target")}
    places = {Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo")): "/cargo", staged: "/pyromq-core"}
    environment["RUSTFLAGS"] = " ".join(f"--remap-path-prefix={place}={name}" for place, name in places.items())
    environment["PATH"] = f"{tool('')}{os.pathsep}{os.environ['PATH']}"  # maturin finds zig there
    options = ["--zig", "--compatibility", _OLDEST_GLIBC] if portable else []
    run(tool("maturin"), "sdist", *manifest, env=environment)
    run(tool("maturin"), "build", "--release", *options, *manifest, env=environment)
    for wheel in folder.glob("pyromq_core-*.whl"):
        _forget_place(wheel, staged, environment)
    return sorted(folder.glob("pyromq_core-*"))


def _forget_place(wheel: Path, staged: Path, environment: Mapping[str, str]) -> None:
    """Take the folder of the build out of the bill of materials, where maturin names it."""
    with TemporaryDirectory() as place:
        run(sys.executable, "-m", "wheel", "unpack", "--dest", place, wheel)
        [unpacked] = Path(place).iterdir()
        for bill in unpacked.glob("*.dist-info/sboms/*.json"):
            bill.write_text(
                bill.read_text(encoding="utf-8").replace(staged.as_uri(), "file:///pyromq-core"), encoding="utf-8"
            )
        run(sys.executable, "-m", "wheel", "pack", "--dest-dir", wheel.parent, unpacked, env=environment)


def stage_core(folder: Path) -> Path:
    """A copy of ``core/`` with licence texts, and with metadata that names them."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "core", folder, ignore=shutil.ignore_patterns("target", "Cargo.lock"))
    shutil.copy(ROOT / "LICENSE", folder / "LICENSE")
    texts = folder / "licenses"
    texts.mkdir()
    for crate in linked_crates(folder):
        for file in _licences(Path(crate["manifest_path"]).parent):
            shutil.copy(file, texts / f"{crate['name']}-{crate['version']}-{file.name}")
    for file in _licences_of_rust():
        shutil.copy(file, texts / f"rust-standard-library-{file.name}")
    project = folder / "pyproject.toml"
    text = project.read_text(encoding="utf-8")
    text = text.replace("\nrequires-python", '\nlicense-files = ["LICENSE", "licenses/*"]\nrequires-python', 1)
    if links := project_links(home(ROOT)):
        text += "\n[project.urls]\n" + "".join(f'{name} = "{address}"\n' for name, address in links.items())
    project.write_text(text, encoding="utf-8")
    return folder


def linked_crates(folder: Path) -> list[dict[str, Any]]:
    """Packages whose code is in the extension: what is normal and no macro, of the whole tree."""
    tree = run("cargo", "tree", "--edges", "normal,no-proc-macro", "--prefix", "none", "--format", "{p}", cwd=folder)
    names = {tuple(line.split()[:2]) for line in tree.splitlines()}
    packages = json.loads(run("cargo", "metadata", "--format-version", "1", cwd=folder))["packages"]
    found = [each for each in packages if (each["name"], f"v{each['version']}") in names and each["source"]]
    without = [each["name"] for each in found if not any(_licences(Path(each["manifest_path"]).parent))]
    if without:
        raise ReleaseError(f"no licence text in the crates {', '.join(without)}: add it, or replace the crate")
    return found


def _licences(folder: Path) -> Iterator[Path]:
    yield from (file for file in sorted(folder.iterdir()) if file.is_file() and _LICENCE_FILE.match(file.name))


def _licences_of_rust() -> Iterator[Path]:
    documents = Path(run("rustc", "--print", "sysroot").strip()) / "share/doc/rust"
    yield from (file for file in sorted(documents.glob("COPYRIGHT-library*")) if file.is_file())


def _files(folder: Path) -> list[Path]:
    return [*folder.glob("*.whl"), *folder.glob("*.tar.gz")]
