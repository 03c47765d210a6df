"""The ten commands of docs/how-to/security.md, as a reader types them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pyromq.testing import free_port
from tests.unit.test_docs import blocks_of

pytestmark = pytest.mark.integration

PAGE = Path(__file__).parents[2] / "docs/how-to/security.md"


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


def test_the_commands_for_more_than_one_machine(tmp_path: Path) -> None:
    """With the addresses of this one in place of others; the server listens on all of its own."""
    blocks = list(blocks_of(PAGE.read_text(encoding="utf-8")))
    settings = next(block.code for block in blocks if block.info == "toml")
    commands = next(block.code for block in blocks if block.info == "sh" and "tls init" in block.code)
    (tmp_path / "server.toml").write_text(settings, encoding="utf-8")
    names, broker = free_port(), free_port()
    commands = commands.replace("mq.example:9876", f"127.0.0.1:{names}").replace("=mq.example", "=127.0.0.1")
    start, up, rest = commands.partition("pyromq up")
    server, topics, last = rest.partition("\npyromq --tls-ca")
    ports = f"--nameserver-port {names} --broker-port {broker}"
    script = "\n".join(
        (
            "set -euo pipefail",
            f'pyromq() {{ {sys.executable} -m pyromq "$@"; }}',
            start,
            f"{sys.executable} -m pyromq up {ports}{server} > ready.txt &",
            "server=$!",
            "trap 'kill $server; wait $server || true' EXIT",
            "until grep -q ready ready.txt 2> /dev/null; do kill -0 $server; sleep 0.05; done",
            f"pyromq --tls-ca certificates/ca.pem topic create orders --nameserver 127.0.0.1:{names}",
            topics + last,
        )
    )
    assert up
    environment = {**os.environ, "PYROMQ_ACCESS_KEY": "admin", "PYROMQ_SECRET_KEY": "a-long-admin-secret"}
    ended = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert '{"topic":"orders",' in ended.stdout


@pytest.mark.parametrize("access", [[], ["--config", "server.toml"]])
def test_a_server_that_strangers_could_use_does_not_start(access: list[str], tmp_path: Path) -> None:
    settings = next(block.code for block in blocks_of(PAGE.read_text(encoding="utf-8")) if block.info == "toml")
    (tmp_path / "server.toml").write_text(settings, encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "pyromq",
        "up",
        "--host",
        "0.0.0.0",
        "--nameserver-port",
        "0",
        "--broker-port",
        "0",
    ]
    ended = subprocess.run([*command, *access], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1 and "--insecure-network" in ended.stderr
    assert ("not encrypted" if access else "there is no access control") in ended.stderr
