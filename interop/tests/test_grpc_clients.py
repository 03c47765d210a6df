"""The official clients of RocketMQ 5 in Java, Go and Node.js at our gRPC port; Python's has ``make grpc``."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from interop.grpc.programs import PROGRAMS, outcome

PYROMQ = [sys.executable, "-m", "pyromq"]
TOPICS = {
    "orders": "normal",
    "fifo": "fifo",
    "later": "delay",
    "money": "transaction",
    "urgent": "priority",
    "work": "normal",
}
EXPECTED = {
    "java": {
        "normal by tag": "[n0, n2]",
        "order": "[f0, f1, f2, f3, f4]",
        "delay and recall": "[soon]",
        "transactions": "[committed, orphan]",
        "push and retry": "{fails once=2, fine=1}",
    },
    "go": {
        "normal by tag": "[g0 g2]",
        "order": "[f0 f1 f2 f3 f4]",
        "delay": "[soon]",
        "transactions": "[committed orphan]",
    },
    "node": {
        "normal by tag": "j0 j2",
        "order": "f0 f1 f2 f3 f4",
        "delay": "soon",
        "transactions": "committed, orphan",
    },
}


@pytest.fixture
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker with a topic for each kind of message, and a group that is served in order."""
    folder = tmp_path_factory.mktemp("grpc")
    ports = ["--nameserver-port", "0", "--broker-port", "0", "--grpc-port", "0"]
    quick = ["--set", "broker.transaction_timeout_ms=500", "--set", "broker.transaction_check_interval_ms=1000"]
    command = [*PYROMQ, "up", "--data", str(folder), *ports, *quick, "--no-console", "--no-metrics"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        words = dict(word.split("=", 1) for word in process.stdout.readline().split()[1:])
        for topic, kind in TOPICS.items():
            subprocess.run([*PYROMQ, "topic", "create", topic, "--type", kind, "-n", words["nameserver"]], check=True)
        group = [*PYROMQ, "mqadmin", "updateSubGroup", "-g", "ordered", "-o", "true", "-c", "DefaultCluster"]
        subprocess.run([*group, "-n", words["nameserver"]], check=True)
        yield words["grpc"]
        process.terminate()


@pytest.mark.parametrize("language", list(PROGRAMS))
def test_an_official_client_sends_receives_and_ends_transactions(language: str, endpoint: str) -> None:
    found = outcome(language, endpoint)
    assert {name: found.get(name) for name in EXPECTED[language]} == EXPECTED[language], found
