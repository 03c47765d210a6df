"""``pyromq tls``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyromq.cli.main import main


def test_a_cluster_gets_its_certificates(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(tmp_path / "tls")
    assert main(["tls", "init", folder, "--host", "mq.example", "--client", "billing"]) == 0
    out, err = capsys.readouterr()
    assert [line.split("/")[-1] for line in out.splitlines()] == [
        "ca-key.pem",
        "server-key.pem",
        "client-billing-key.pem",
    ]
    assert "tls_mode = enforcing" in err and "ca-key.pem away from servers" in err
    assert main(["tls", "client", folder, "shipping"]) == 0
    assert main(["tls", "server", folder, "--host", "10.0.0.8", "--name", "broker-b"]) == 0
    capsys.readouterr()
    assert main(["tls", "ls", folder, "-o", "jsonl"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["name"] for row in rows] == ["10.0.0.8", "PyroMQ cluster", "billing", "shipping", "mq.example"]
    assert main(["tls", "init", folder]) == 1
    assert "is there already" in capsys.readouterr().err
