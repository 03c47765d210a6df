"""Commit protocol of an archive: how the files of a batch become part of it exactly once.

    archive/
    ├── topic=orders/date=2026-11-15/hour=08/<name>.parquet    what every reader of Parquet sees
    └── _pyromq/
        ├── staged/<query>-<batch>-<part>-<attempt>-<n>.parquet.staged    written by tasks; no reader's pattern matches
        ├── pending/<name>.json      a commit that is being carried out
        └── commits/<name>.json      a commit that was

A commit says which staged files come in under which names, and which files go. It is decided when it stands in
``pending``: from then on it is carried out, if need be by the next process, and then moved to ``commits``. A batch that
Spark runs again finds its commit there; what its tasks wrote a second time is thrown away. Before that point a crash
leaves staged files only, and the batch is written again.

A commit of batches only adds files, so readers see part of one at worst. Compaction takes files away: a query
that reads the folder meanwhile may see rows twice for a moment, never too few.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from pyromq import whole_text
from pyromq.pipeline.jobs.common.errors import ArchiveError

OWN: Final = "_pyromq"
SPARK_OWN: Final = "_spark_metadata"
_STAGED: Final = ".staged"  # behind the name: DuckDB and Polars look into every folder for *.parquet, hidden or not
# what Hive and Spark write as %XX in names of folders
_ESCAPED: Final = frozenset("\"#%'*/:=?\\\x7f{[]^") | frozenset(map(chr, range(32)))


class StagedFile(msgspec.Struct, frozen=True):
    """Written by a task; ``folder`` is where in the archive it shall stand."""

    name: str
    folder: str
    rows: int
    size: int


class ArchiveCommit(msgspec.Struct, frozen=True, kw_only=True):
    """``added``: staged files; ``removed``: paths in the archive."""

    name: str
    added: tuple[StagedFile, ...] = ()
    removed: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.added)

    @property
    def size(self) -> int:
        return sum(file.size for file in self.added)


def folder_of(topic: str, date: str, hour: int) -> str:
    escaped = "".join(f"%{ord(each):02X}" if each in _ESCAPED else each for each in topic)
    return f"topic={escaped}/date={date}/hour={hour:02d}"


def batch_name(query: str, batch: int) -> str:
    """The name of a batch's commit."""
    return f"{query}-{batch:09d}"


class ArchiveFolder:
    """One archive on a disk that driver and tasks share. Any number of processes may commit."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.staged = path / OWN / "staged"  # files of tasks that no commit took yet
        self.pending = path / OWN / "pending"  # commits that are decided
        self.commits = path / OWN / "commits"  # commits that were carried out

    def prepare(self) -> None:
        """Make the folders and finish what a killed process began. Raises ArchiveError."""
        if (self.path / SPARK_OWN).exists():
            text = f"{self.path} was written with writer=spark; use that writer again, or another folder"
            raise ArchiveError(text)
        for folder in (self.staged, self.pending, self.commits):
            folder.mkdir(parents=True, exist_ok=True)
        with self._locked():
            for visible in self.staged.glob("*.parquet"):  # as versions before 0.1 staged them
                visible.rename(self.staged_path(visible.name))
            self._finish_pending()

    def staged_path(self, name: str) -> Path:
        """Where a task writes the file that a commit brings into the archive under ``name``."""
        return self.staged / f"{name}{_STAGED}"

    def sweep(self, query: str) -> int:
        """Throw away what tasks of this query staged and no commit took. The query must not be running."""
        orphans = list(self.staged.glob(f"{query}-*"))
        for orphan in orphans:
            orphan.unlink(missing_ok=True)
        return len(orphans)

    def commit(self, commit: ArchiveCommit) -> bool:
        """Make it part of the archive; False if one of that name was carried out before, and this one is dropped."""
        with self._locked():
            self._finish_pending()
            if self._file(self.commits, commit.name).exists():
                for file in commit.added:
                    self.staged_path(file.name).unlink(missing_ok=True)
                return False
            self._decide(commit)
            self._carry_out(commit)
            return True

    def committed(self, query: str, after: int = -1) -> Iterator[ArchiveCommit]:
        """Commits of a query's batches behind one, in order."""
        for path in sorted(self.commits.glob(f"{query}-*.json")):
            if int(path.stem.rpartition("-")[2]) > after:
                yield msgspec.json.decode(path.read_bytes(), type=ArchiveCommit)

    def last_batch(self, query: str) -> int:
        """Number of the last batch; -1 without any."""
        return max((int(path.stem.rpartition("-")[2]) for path in self.commits.glob(f"{query}-*.json")), default=-1)

    # --- the steps of a commit ---

    def _decide(self, commit: ArchiveCommit) -> None:
        path = self._file(self.pending, commit.name)
        aside = path.with_suffix(".tmp")
        whole_text.write_flushed(aside, msgspec.json.encode(commit))
        aside.rename(path)
        sync_folder(self.pending)

    def _carry_out(self, commit: ArchiveCommit) -> None:
        """May be repeated, and begun by one process and ended by another."""
        folders = set()
        for file in commit.added:
            target = self.path / file.folder / file.name
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                self.staged_path(file.name).rename(target)
            except FileNotFoundError:
                if not target.exists():
                    text = f"{self.staged_path(file.name)} of commit {commit.name} is missing"
                    raise ArchiveError(f"{text}; remove {self.pending} to have the batch written again") from None
            folders.add(target.parent)
        for folder in folders:
            sync_folder(folder)
        for path in commit.removed:
            (self.path / path).unlink(missing_ok=True)
        self._file(self.pending, commit.name).rename(self._file(self.commits, commit.name))
        sync_folder(self.commits)

    def _finish_pending(self) -> None:
        for path in sorted(self.pending.glob("*.json")):
            self._carry_out(msgspec.json.decode(path.read_bytes(), type=ArchiveCommit))

    @staticmethod
    def _file(folder: Path, name: str) -> Path:
        return folder / f"{name}.json"

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with (self.path / OWN / "lock").open("wb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    @contextmanager
    def merging(self) -> Iterator[None]:
        """One process at a time: two would both keep the rows of the same files. Raises ArchiveError."""
        with (self.path / OWN / "compaction.lock").open("wb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ArchiveError(f"another process is merging files of {self.path}; wait until it ends") from None
            yield

    # --- looking ---

    def files(self) -> list[Path]:
        """Files that readers see."""
        return sorted(path for path in self.path.glob("topic=*/date=*/hour=*/*.parquet"))


def sync_folder(folder: Path) -> None:
    """So that names in it survive a power cut; some file systems cannot, and need not."""
    with suppress(OSError):
        whole_text.sync_folder(folder)


def total_rows(commits: Iterable[ArchiveCommit]) -> int:
    return sum(commit.rows for commit in commits)
