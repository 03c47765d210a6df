"""What must hold of built files before anybody installs them; each check raises ReleaseError with what to do."""

from __future__ import annotations

import re
import tarfile
import zipfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from release.building import ReleaseError, build_pure, linked_crates, run, tool

WHEEL_BYTES_MAX: Final = 4 << 20
_MACHINE_PATHS: Final = re.compile(rb"(?<![\w.])/(home|root|work|tmp|Users)/[\w.-]+/[\w./-]+")


def check_all(folder: Path, core: Path) -> list[str]:
    """Run every check on the files of a folder; returns a line for each that held. ``core`` is the staged crate."""
    wheels, sdists = sorted(folder.glob("*.whl")), sorted(folder.glob("*.tar.gz"))
    if not wheels or not sdists:
        raise ReleaseError(f"{folder} has no wheel or no sdist: make wheels")
    held = [check_metadata(folder)]
    for wheel in wheels:
        held += [check_contents(wheel), check_bill_of_materials(wheel)]
        if not wheel.name.endswith("-none-any.whl"):
            held += [check_platform(wheel), check_licences(wheel, core)]
    held += [check_sdist(sdist) for sdist in sdists]
    return held


def check_metadata(folder: Path) -> str:
    """twine accepts the metadata, and the page renders."""
    run(tool("twine"), "check", "--strict", *sorted(folder.glob("*.whl")), *sorted(folder.glob("*.tar.gz")))
    return "metadata: twine check --strict passed"


def check_contents(wheel: Path) -> str:
    """The wheel has its licence, no test and no path of the machine that built it, and is small."""
    if wheel.stat().st_size > WHEEL_BYTES_MAX:
        raise ReleaseError(f"{wheel.name} has {wheel.stat().st_size} bytes, more than {WHEEL_BYTES_MAX}: what came in?")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        paths = {
            name: found
            for name in names
            if (found := _MACHINE_PATHS.search(archive.read(name))) and name.endswith((".so", ".json"))
        }
    if paths:
        raise ReleaseError(f"{wheel.name} names places of this machine: {paths}")
    if not any("/licenses/LICENSE" in name for name in names):
        raise ReleaseError(f"{wheel.name} has no licence text")
    strange = [name for name in names if name.split("/")[0] in ("tests", "docs", "release", "benchmarks")]
    if strange:
        raise ReleaseError(f"{wheel.name} holds what does not belong into it: {strange[:5]}")
    if wheel.name.startswith("pyromq-") and not any(name.endswith("/jvm/java/DefaultSource.java") for name in names):
        raise ReleaseError(f"{wheel.name} has no sources of the JVM lane (pipeline/spark/jvm/java)")
    return f"{wheel.name}: {len(names)} files, {wheel.stat().st_size // 1024} KiB, its licence among them"


def check_bill_of_materials(wheel: Path) -> str:
    """The wheel has a software bill of materials (PEP 770) that is valid CycloneDX."""
    with zipfile.ZipFile(wheel) as archive:
        texts = [
            archive.read(name).decode()
            for name in archive.namelist()
            if re.search(r"\.dist-info/sboms/.*\.cyclonedx\.json$", name)
        ]
    if not texts:
        raise ReleaseError(f"{wheel.name} has no bill of materials")
    for text in texts:
        version = re.search(r'"specVersion":\s*"(1\.\d)"', text)
        schema = SchemaVersion.from_version(version[1]) if version else SchemaVersion.V1_6
        if error := JsonStrictValidator(schema).validate_str(text):
            raise ReleaseError(f"{wheel.name}: the bill of materials is not valid: {error}")
    return f"{wheel.name}: {len(texts)} valid bill of materials"


def check_platform(wheel: Path) -> str:
    """The extension asks for no newer libc than its tag says, and for the stable interface of Python alone."""
    shown = " ".join(run(tool("auditwheel"), "show", wheel).split())
    found = re.search(r'consistent with the following platform tag: "(\w+)"', shown)
    if found is None or found[1] not in wheel.name:
        raise ReleaseError(f"{wheel.name} is not what its tag says: {shown}")
    run(tool("abi3audit"), "--strict", wheel)
    return f"{wheel.name}: auditwheel agrees with {found[1]}, abi3audit found no violation"


def check_licences(wheel: Path, core: Path) -> str:
    """Every crate that is linked in has its licence in the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if "/licenses/" in name]
    crates = [f"{each['name']}-{each['version']}-" for each in linked_crates(core)]
    missing = [crate for crate in [*crates, "rust-standard-library"] if not any(crate in name for name in names)]
    if missing:
        raise ReleaseError(f"{wheel.name} has no licence of {', '.join(missing)}")
    return f"{wheel.name}: licences of {len(crates)} crates and of Rust's library"


def check_sdist(sdist: Path) -> str:
    """The sdist holds no cache and no secret, and opens into one folder."""
    with tarfile.open(sdist) as archive:
        names = archive.getnames()
    strange = [name for name in names if re.search(r"(__pycache__|\.venv|\.cache|target/|\.pem$|\.key$|\.env$)", name)]
    if strange or len({name.split("/")[0] for name in names}) != 1:
        raise ReleaseError(f"{sdist.name} holds what does not belong into it: {strange[:5]}")
    return f"{sdist.name}: {len(names)} files"


def check_reproducible(folder: Path, build: Callable[[Path], list[Path]] = build_pure) -> str:
    """A second build has the same bytes."""
    with TemporaryDirectory() as again:
        for file in build(Path(again)):
            first, second = (sha256((each / file.name).read_bytes()).hexdigest() for each in (folder, Path(again)))
            if first != second:
                raise ReleaseError(f"{file.name} is another file in each build: {first}, {second}")
    return f"pyromq: two builds, the same bytes (sha256 of the wheel {_hash(folder)}…)"


def _hash(folder: Path) -> str:
    return sha256(next(folder.glob("pyromq-*.whl")).read_bytes()).hexdigest()[:12]
