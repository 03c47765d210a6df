"""Files of jobs: a folder for each, with its record and the result of every item.

    <id>/job.json        the record, whole at every moment (``whole_text``)
    <id>/results.jsonl   a line when an item begins ({"begun": …}), a line with its result; locked while the job runs
    <id>/asked           what another process asks the job for: pause, resume, go, cancel

Several processes may share the folder. The lock says whether a job still runs, wherever that is. Results are written as
they come, without a flush to the disk: they survive the end of the process, and a power cut may cost the last ones. The
counts of a job that did not end by itself are taken from its results; an item that began and has no result is unknown.
"""

from __future__ import annotations

import fcntl
import logging
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from pyromq.errors import ConfigError, CorruptFileError, StoreError
from pyromq.operate.jobs.outcomes import Counts, ItemResult, Outcome
from pyromq.operate.jobs.record import JobRecord, JobState
from pyromq.whole_text import WholeText

logger = logging.getLogger(__name__)

LINE_BYTES_MAX: Final = 64 << 10
_INTERRUPTED: Final = "its process ended while the job ran; what was reached stands below"


class JobFolderError(StoreError):
    """The folder of a job cannot be written or read: look at the disk and its rights."""


class JobBusyError(ConfigError):
    """The work of this job is being done by another one."""


class _Begun(msgspec.Struct, frozen=True):
    begun: str


_BEGUN: Final = b'{"begun":'
_decode_begun = msgspec.json.Decoder(_Begun).decode
_decode_result = msgspec.json.Decoder(ItemResult).decode


class JobFiles:
    """The files of one job. Owner of its open results file, and of the lock of the job that it goes on with."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._record = WholeText(folder / "job.json", _is_record)
        self._results: BinaryIO | None = None
        self._first: BinaryIO | None = None

    @property
    def results_path(self) -> Path:
        return self.folder / "results.jsonl"

    def create(self, record: JobRecord) -> None:
        """Begin a job. Raises JobFolderError, JobBusyError where another job does the same work now."""
        try:
            self._lock_first(record)
            self.folder.mkdir(0o700, parents=True)
            self._results = self.results_path.open("ab", buffering=0)
            fcntl.flock(self._results, fcntl.LOCK_EX)
            self._record.save(msgspec.json.encode(record))
        except OSError as error:
            self.close()
            raise JobFolderError(f"job {record.id} cannot be kept in {self.folder}: {error}") from error

    def _lock_first(self, record: JobRecord) -> None:
        """A job that goes on holds the lock of the first of its chain, so that no two of them send the same."""
        first = JobFiles(self.folder.parent / record.spec.run_id)
        if record.spec.run_id == record.id or not first.results_path.is_file():
            return
        file = first.results_path.open("rb")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise JobBusyError(
                f"job {record.spec.run_id}, or one that goes on with it, is running: wait for it, or cancel it"
            ) from None
        self._first = file

    def is_running(self) -> bool:
        """Whether some process runs the job."""
        try:
            with self.results_path.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def ask(self, what: str) -> None:
        """Leave word for the process that runs the job. Raises JobFolderError."""
        try:
            (self.folder / "asked").write_text(what)
        except OSError as error:
            raise JobFolderError(f"job {self.folder.name} cannot be asked in {self.folder}: {error}") from error

    def take_asked(self) -> str:
        """Return what another process asked for, once; empty if nothing."""
        path = self.folder / "asked"
        try:
            what = path.read_text()
            path.unlink()
        except (OSError, UnicodeDecodeError):
            return ""
        return what

    def save(self, record: JobRecord) -> None:
        """Write the record of a job. Raises JobFolderError."""
        try:
            self._record.save(msgspec.json.encode(record))
        except OSError as error:
            raise JobFolderError(f"job {record.id} cannot be kept in {self.folder}: {error}") from error

    def begin(self, item: str) -> None:
        """Before an item is attempted. Raises JobFolderError: then it is not attempted."""
        self._write(msgspec.json.encode(_Begun(item)))

    def add(self, result: ItemResult) -> None:
        """Append the result of one item. Raises JobFolderError."""
        self._write(msgspec.json.encode(result))

    def _write(self, line: bytes) -> None:
        assert self._results is not None, "the job has begun"
        try:
            self._results.write(line + b"\n")
        except OSError as error:
            raise JobFolderError(f"results cannot be written to {self.results_path}: {error}") from error

    def close(self) -> None:
        for file in (self._results, self._first):
            if file is not None:
                file.close()
        self._results = self._first = None

    # --- reading ---

    def results(
        self, *, skip: int = 0, count_max: int = 0, outcomes: frozenset[Outcome] | None = None
    ) -> Iterator[ItemResult]:
        """In the order in which they came, those of these outcomes; ``count_max`` 0 means all."""
        given = 0
        for result in read_results(self.results_path):
            if outcomes is not None and result.outcome not in outcomes:
                continue
            given += 1
            if given <= skip:
                continue
            yield result
            if count_max and given >= skip + count_max:
                return

    def load(self) -> JobRecord | None:
        """Return the record as it was kept; None if there is none that can be read.

        A job that was not over and that no process runs is interrupted.
        """
        is_running = self.is_running()  # first: one that ends now has its last record then
        try:
            record = self._record.load(lambda text: msgspec.json.decode(text, type=JobRecord))
        except (CorruptFileError, OSError) as error:
            logger.warning("job passed over: folder=%s reason=%s", self.folder, error)
            return None
        if record is None or not record.is_active or is_running:
            return record
        counts = Counts()
        for result in read_results(self.results_path):
            counts = counts.plus(result)
        record = msgspec.structs.replace(record, state=JobState.INTERRUPTED, note=_INTERRUPTED, counts=counts)
        with suppress(JobFolderError):
            self.save(record)
        return record

    def remove(self) -> None:
        self.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def read_results(path: Path) -> Iterator[ItemResult]:
    """A line that was torn by a crash is passed over; what it was about had begun, so it is unknown."""
    under_way = ""
    try:
        with path.open("rb") as file:
            while line := file.readline(LINE_BYTES_MAX):
                told = _read_line(line)
                if isinstance(told, _Begun):
                    under_way = told.begun
                elif told is not None:
                    under_way = ""
                    yield told
    except FileNotFoundError:
        return
    if under_way:
        text = "it was being attempted when its process ended"
        yield ItemResult(item=under_way, outcome=Outcome.UNKNOWN, text=text, is_problem=True)


def _read_line(line: bytes) -> _Begun | ItemResult | None:
    try:
        return _decode_begun(line) if line.startswith(_BEGUN) else _decode_result(line)
    except msgspec.MsgspecError:
        return None


def _is_record(text: bytes) -> bool:
    try:
        msgspec.json.decode(text, type=JobRecord)
    except msgspec.MsgspecError:
        return False
    return True
