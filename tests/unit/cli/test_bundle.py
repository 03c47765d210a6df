from __future__ import annotations

import os
import tarfile
from pathlib import Path
from typing import Any

import pytest

from pyromq.cli.examining.bundle import REMOVED, Bundle, without_secrets
from pyromq.errors import ConnectFailedError

CANARY = "c4n4ry"


@pytest.mark.parametrize(
    "value",
    [
        {"secretKey": CANARY},
        {"innerClientAuthenticationCredentials": f'{{"accessKey":"{CANARY}"}}'},
        {"initial_user_password": CANARY, "deep": [{"accessToken": CANARY}]},
        {"nameservers": f"http://operator:{CANARY}@example:80/list;https://{CANARY}@other"},
        [f"see http://{CANARY}@host/ please"],
    ],
)
def test_secrets_are_removed(value: Any) -> None:
    shown = str(without_secrets(value))
    assert CANARY not in shown and REMOVED in shown


def test_what_is_no_secret_stays_and_an_empty_secret_is_shown_as_such() -> None:
    value = {"secretKey": "", "port": 10911, "keys": ["a@b"], "tls_key_file": "/etc/key.pem", "none": None}
    assert without_secrets(value) == value


async def test_what_is_not_answered_is_told(tmp_path: Path) -> None:
    async def refuse() -> None:
        raise ConnectFailedError("no name server answered")

    bundle = Bundle()
    assert await bundle.ask("cluster", refuse) is None
    bundle.write(tmp_path / "b.tgz")
    with tarfile.open(tmp_path / "b.tgz") as archive:
        content = archive.extractfile("pyromq-bundle/not-answered.json")
        assert content is not None and b"no name server answered" in content.read()
    assert os.listdir(tmp_path) == ["b.tgz"]
