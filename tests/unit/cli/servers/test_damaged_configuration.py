"""Configuration files damaged in every way: refused with an error of ours that names the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyromq.errors import MQError
from tests.unit.cli.servers.test_settings import broker_with

CONFIGURATIONS = {
    "binary.toml": bytes(range(256)) * 20,
    "half.toml": b'[broker]\nname = "a',
    "list.toml": b"broker = [1, 2]\n",
    "types.toml": b'[broker]\nport = "many"\n',
    "twice.toml": b"[broker]\nport = 1\nport = 2\n",
    "unknown.toml": b"[broker]\nprot = 1\n",
    "huge.toml": b"[broker]\nport = 99999999999999999999999999\n",
    "negative.toml": b"[broker.store]\nsegment_bytes = -1\n",
    "deep.toml": b"a = " + b"[" * 5_000 + b"]" * 5_000 + b"\n",
    "binary.conf": bytes(range(256)) * 20,
    "types.conf": b"listenPort = many\n",
    "unknown.conf": b"lisenPort = 1\n",
    "no-equals.conf": b"brokerName\n",
    "huge.conf": b"brokerName = " + b"x" * 100_000 + b"\n",
    "surrogate.conf": b"brokerName = \xed\xa0\x80\n",
    "folder.toml": None,
}


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_a_damaged_configuration_is_refused_by_name(name: str, tmp_path: Path) -> None:
    path, content = tmp_path / name, CONFIGURATIONS[name]
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)
    with pytest.raises(MQError) as refused:
        broker_with(path).broker()
    assert name in str(refused.value) and len(str(refused.value)) < 1_000


def test_an_empty_configuration_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty.toml").touch()
    assert broker_with(tmp_path / "empty.toml").broker() == broker_with().broker()
