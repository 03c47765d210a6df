"""The ten commands of docs/how-to/security.md, as a reader types them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.test_docs import blocks_of

pytestmark = pytest.mark.integration

PAGE = Path(__file__).parents[2] / "docs/how-to/security.md"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def test_a_secured_cluster_in_ten_commands(tmp_path: Path) -> None:
    blocks = list(blocks_of(PAGE.read_text(encoding="utf-8")))
    settings = next(block.code for block in blocks if block.info == "toml")
    commands = next(block.code for block in blocks if block.info == "sh")
    assert len(commands.strip().splitlines()) == 10
    (tmp_path / "server.toml").write_text(settings, encoding="utf-8")
    names, broker = free_port(), free_port()
    first, _, rest = commands.partition("\n")
    assert first.endswith("pyromq up --config server.toml &")
    ports = f"--nameserver-port {names} --broker-port {broker}"
    script = "\n".join(
        (
            "set -euo pipefail",
            f'pyromq() {{ {sys.executable} -m pyromq "$@"; }}',
            first[:-1].replace("pyromq up", f"exec {sys.executable} -m pyromq up {ports}") + "> ready.txt &",
            "server=$!",
            "trap 'kill $server; wait $server || true' EXIT",
            "until grep -q ready ready.txt 2> /dev/null; do kill -0 $server; sleep 0.05; done",
            rest,
        )
    )
    environment = {**os.environ, "PYROMQ_NAMESERVER": f"127.0.0.1:{names}"}
    ended = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert "the first order" in ended.stdout
    assert '"allowed":true' in ended.stdout.replace(" ", "")
    for secret in ("a-long-admin-secret", "a-long-shop-secret", "a-long-billing-secret"):
        assert secret not in ended.stdout + ended.stderr
    kept = list(tmp_path.rglob("*access.json*"))
    assert kept and all(path.stat().st_mode & 0o077 == 0 for path in kept)
