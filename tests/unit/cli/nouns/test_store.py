"""``pyromq store check``: exit codes, forms of output, and that the folder is left as it was."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pyromq.cli.exit_codes import ExitCode
from pyromq.cli.main import main
from pyromq.errors import MQError
from pyromq.store.files.disk import RealDisk
from pyromq.store.message_store import MessageStore
from pyromq.testing import ManualClock
from tests.crash.script import SMALL, draft

SLOTS = ["--index-slots", str(SMALL.index_slots)]

# Runs the command with a hook that refuses to open anything under the store for writing, and to change names there.
_GUARDED = """
import os, sys
root = sys.argv[-1]
def guard(event, args):
    if event == "open" and str(args[0]).startswith(root) and args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
        raise AssertionError(f"{args[0]} opened for writing")
    if event in ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate") and str(args[0]).startswith(root):
        raise AssertionError(f"{event} {args[0]}")
sys.addaudithook(guard)
from pyromq.cli.main import main
from pyromq.errors import MQError
sys.exit(main(["store", "check", "--index-slots", "16", "-o", "table", root]))
"""


def make_store(root: Path, *, closed: bool = True) -> Path:
    clock = ManualClock()
    store = MessageStore.open(root, SMALL, clock=clock)
    for number in range(40):
        store.append([draft(number)])
        store.flush()
        clock.advance_ms(10)
        if number == 30:
            store.seal()
    if closed:
        store.close()
    else:
        store._release()  # as a process that ends without a word: abort stays, no seal is written
    return root


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def snapshot(root: Path) -> dict[str, tuple[int, int, bytes]]:
    paths = sorted(root.rglob("*"))
    stats = {path: path.stat() for path in paths}
    return {
        str(path): (stats[path].st_mtime_ns, stats[path].st_ctime_ns, path.read_bytes() if path.is_file() else b"")
        for path in paths
    }


def run(*args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pyromq", *args]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_a_sound_store_exits_with_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = make_store(tmp_path / "store")
    before = snapshot(tmp_path)
    assert main(["store", "check", str(root), *SLOTS, "-o", "table"]) == 0
    assert snapshot(tmp_path) == before
    out = capsys.readouterr()
    assert out.out.splitlines()[-1] == "sound: 40 records in 4 files, queues and key index agree with the log"
    assert out.err == ""


def test_an_unclean_store_exits_with_5_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = make_store(tmp_path / "store", closed=False)
    before = snapshot(tmp_path)
    assert main(["store", "check", str(root), *SLOTS, "-o", "table"]) == 5
    assert snapshot(tmp_path) == before
    assert capsys.readouterr().out.splitlines()[-1].startswith("sound after recovery: the store was not closed")


def test_a_damaged_store_exits_with_5_and_names_the_loss(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = make_store(tmp_path / "store")
    flip(root / "commitlog" / f"{0:020d}", 150)
    assert main(["store", "check", str(root), *SLOTS, "-o", "table"]) == 5
    out = capsys.readouterr().out
    assert out.splitlines()[-1].startswith("damaged: 1 record lost (")
    assert "commitlog/00000000000000000000" in out


def test_a_store_that_a_process_has_open_is_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "store"
    with MessageStore.open(root, SMALL) as store:
        store.append([draft(1)])
        store.flush()
        assert main(["store", "check", str(root), *SLOTS, "-o", "json"]) == 0
        report = json.loads(capsys.readouterr().out)
        assert report["in_use"] is True
        other = run("store", "check", str(root), *SLOTS, "-o", "json")
        assert other.returncode == 0 and json.loads(other.stdout)["in_use"] is True
        with pytest.raises(MQError, match="open"):  # the look at the lock did not take it away
            MessageStore.open(root, SMALL)
    assert RealDisk().is_locked(root / "lock") is False


def test_json_is_one_object_with_a_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = make_store(tmp_path / "store")
    flip(root / "consumequeue" / "orders" / "1" / f"{0:020d}", 3)
    assert main(["store", "check", str(root), *SLOTS, "-o", "json"]) == 5
    report = json.loads(capsys.readouterr().out)
    assert report["verdict"] == "sound after recovery"
    assert report["log"]["records"] == 40 and len(report["log"]["segments"]) == 4
    assert {finding["kind"] for finding in report["findings"]} == {"queue-damaged", "queues-rebuilt"}


def test_a_pipe_gets_json_lines_that_end_in_the_verdict(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", closed=False)
    done = run("store", "check", str(root), *SLOTS)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 5 and done.stderr == ""
    assert lines[-1]["type"] == "summary" and lines[-1]["verdict"] == "sound after recovery"
    assert {line["type"] for line in lines} == {"finding", "segment", "summary"}


def test_csv_has_one_row_per_finding_and_one_for_the_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = make_store(tmp_path / "store", closed=False)
    main(["store", "check", str(root), *SLOTS, "-o", "csv"])
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert rows[0]["severity"] == "warning" and rows[0]["kind"] == "unclean-stop"
    assert rows[-1]["kind"] == "verdict" and rows[-1]["severity"] == "sound after recovery"


def test_a_process_never_opens_anything_there_for_writing(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", closed=False)
    before = snapshot(tmp_path)
    command = [sys.executable, "-c", _GUARDED, str(root)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 5, done.stderr
    assert snapshot(tmp_path) == before


def test_no_store_exits_with_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["store", "check", str(tmp_path)]) == 2
    assert main(["store", "check", str(tmp_path / "nowhere")]) == 2
    assert "there is no message store in" in capsys.readouterr().err


def test_a_closed_pipe_ends_the_command_quietly(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store")
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "pyromq", "store", "check", str(root), *SLOTS]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False, timeout=60)
    os.close(writer)
    assert done.returncode in (ExitCode.BROKEN_PIPE, ExitCode.USAGE)
    assert "Traceback" not in done.stderr
