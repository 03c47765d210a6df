"""Key-value configuration: saved before it counts, found again after every kind of end."""

from __future__ import annotations

import contextlib
import logging
import os
from pathlib import Path
from typing import Any

import pytest

from pyromq.errors import CorruptFileError
from pyromq.nameserver.errors import LimitError, NotSavedError
from pyromq.nameserver.kv_config import KvConfig
from pyromq.nameserver.kv_file import KvFile
from pyromq.nameserver.settings import NameServerLimits


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "namesrv" / "kvConfig.json"


def opened(path: Path) -> KvConfig:
    return KvConfig(KvFile(path))


def test_the_file_is_rocketmqs(path: Path) -> None:
    opened(path).put("ORDER_TOPIC_CONFIG", "T1", "broker-a:4")
    assert path.read_bytes() == b'{"configTable":{"ORDER_TOPIC_CONFIG":{"T1":"broker-a:4"}}}'


def test_what_was_put_is_there_after_a_restart(path: Path) -> None:
    opened(path).put("n", "k", "v")
    kv = opened(path)
    assert kv.get("n", "k") == "v" and kv.namespace("n") == {"k": "v"} and kv.namespace("m") is None


def test_a_pretty_file_with_more_fields_is_read(path: Path) -> None:
    path.parent.mkdir()
    path.write_text('{\n\t"configTable":{\n\t\t"n":{"k":"v"}\n\t},\n\t"later":1\n}\n')
    assert opened(path).get("n", "k") == "v"


def test_a_deleted_key_stays_deleted_and_its_namespace_stays(path: Path) -> None:
    opened(path).put("n", "k", "v")
    opened(path).delete("n", "k")
    kv = opened(path)
    kv.delete("n", "k")
    kv.delete("m", "k")
    assert kv.get("n", "k") is None and kv.namespace("n") == {} and kv.revision == 0


@pytest.mark.parametrize("damage", [b"", b'{"configTable":{"n":{"k":', b"\x00" * 40, b'{"configTable":[]}'])
def test_a_torn_file_is_passed_over_for_its_backup(path: Path, damage: bytes, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    kv = opened(path)
    kv.put("n", "k", "old")
    kv.put("n", "k", "new")
    path.write_bytes(damage)
    kv = opened(path)
    assert kv.get("n", "k") == "old"
    kv.put("n", "k", "newer")
    path.write_bytes(damage)
    assert opened(path).get("n", "k") == "old", "damage never becomes the backup"


def test_a_file_with_a_damaged_backup_is_an_error(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    path.parent.mkdir()
    path.write_bytes(b"{")
    path.with_name("kvConfig.json.bak").write_bytes(b"{")
    with pytest.raises(CorruptFileError, match="restore one of them"):
        opened(path)


def test_no_file_at_all_is_an_empty_configuration(path: Path) -> None:
    assert opened(path).namespace("n") is None
    assert not path.exists()


class Refusing(KvFile):
    """A disk that is full."""

    def save(self, text: bytes) -> None:
        raise OSError(28, "No space left on device")


def test_a_change_that_cannot_be_saved_does_not_count(path: Path) -> None:
    opened(path).put("n", "k", "v")
    kv = KvConfig(Refusing(path))
    with pytest.raises(NotSavedError, match="No space left"):
        kv.put("n", "k", "w")
    with pytest.raises(NotSavedError):
        kv.delete("n", "k")
    assert kv.get("n", "k") == "v" and kv.revision == 0


@pytest.mark.parametrize("steps", range(9))
def test_a_save_that_is_cut_off_leaves_the_old_or_the_new_text(
    path: Path, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(path).put("n", "k", "old")
    kv, left = opened(path), iter(range(steps))

    def failing(module: Any, name: str) -> None:
        original = getattr(module, name)

        def call(*arguments: Any, **options: Any) -> Any:
            if next(left, None) is None:
                raise OSError(5, "Input/output error")
            return original(*arguments, **options)

        monkeypatch.setattr(module, name, call)

    failing(os, "fsync")
    failing(Path, "replace")
    with contextlib.suppress(NotSavedError):
        kv.put("n", "k", "new")
    monkeypatch.undo()
    found = opened(path).get("n", "k")
    assert found == "new" if kv.get("n", "k") == "new" else found in ("old", "new")
    assert kv.get("n", "k") == ("new" if steps >= 6 else "old")


def test_what_is_put_twice_is_saved_once(path: Path) -> None:
    kv = opened(path)
    kv.put("n", "k", "v")
    path.unlink()
    kv.put("n", "k", "v")
    assert not path.exists() and kv.revision == 1


def test_names_and_the_whole_are_bounded() -> None:
    kv = KvConfig(limits=NameServerLimits(kv_bytes_max=100))
    for namespace, key in (("", "k"), ("n", ""), ("x" * 256, "k"), ("n", "x" * 256)):
        with pytest.raises(LimitError):
            kv.put(namespace, key, "v")
    with pytest.raises(LimitError, match="at most 100 are allowed"):
        kv.put("n", "k", "x" * 100)
    assert kv.namespace("n") is None
