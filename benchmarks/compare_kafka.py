"""A Kafka broker for comparisons, and the jars of Spark's connector to it: fetched by Maven once, kept outside git.

    ${XDG_CACHE_HOME:-~/.cache}/pyromq-compare/<digest of the pom>/{broker,connector}/*.jar

``kafka/pom.xml`` names the versions. Spark's connector is published some time after Spark itself: where there is none
for the installed Spark, the newest one runs in it.
"""

from __future__ import annotations

import hashlib
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyromq.testing import free_port

POM = Path(__file__).parent / "kafka" / "pom.xml"
_FETCH_TIMEOUT_S = 900
_READY_TIMEOUT_S = 120
_CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
_JVM = ("-Xms512m", "-Xmx512m", "-XX:+UseG1GC")


@dataclass(frozen=True, slots=True)
class KafkaJars:
    folder: Path

    @property
    def broker(self) -> str:
        return f"{self.folder / 'broker'}/*"

    @property
    def connector(self) -> list[Path]:
        return sorted((self.folder / "connector").glob("*.jar"))

    @property
    def versions(self) -> str:
        """In words."""
        broker = _version(self.folder / "broker", "kafka_2.13-")
        connector = _version(self.folder / "connector", "spark-sql-kafka-0-10_2.13-")
        clients = _version(self.folder / "connector", "kafka-clients-")
        return f"Kafka {broker}, Spark's connector {connector} with clients {clients}"


def _version(folder: Path, prefix: str) -> str:
    return next(folder.glob(f"{prefix}*.jar")).stem.removeprefix(prefix)


def prepare_kafka() -> KafkaJars:
    """Fetches what is missing. Raises CalledProcessError, TimeoutExpired."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pyromq-compare"
    jars = KafkaJars(cache / hashlib.sha256(POM.read_bytes()).hexdigest()[:16])
    done = jars.folder / "fetched"
    if not done.exists():
        for profile in ("broker", "connector"):
            command = ["mvn", "-q", "-B", "-f", str(POM), "-P", profile, "dependency:copy-dependencies"]
            command += ["-DincludeScope=runtime", f"-DoutputDirectory={jars.folder / profile}"]
            subprocess.run(command, check=True, timeout=_FETCH_TIMEOUT_S)
        done.touch()
    return jars


@dataclass(frozen=True, slots=True)
class Kafka:
    """A running broker, which is its own controller."""

    address: str
    pid: int


@contextmanager
def kafka(jars: KafkaJars, folder: Path) -> Iterator[Kafka]:
    """With Kafka's defaults."""
    folder.mkdir(parents=True)
    port, controller = free_port(), free_port()
    values = {
        "process.roles": "broker,controller", "node.id": 1, "log.dirs": folder / "logs",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}", "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "offsets.topic.replication.factor": 1, "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1, "broker.session.timeout.ms": 60_000,
    }  # fmt: skip
    config = folder / "server.properties"
    config.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
    java = ["java", *_JVM, "-cp", jars.broker]
    with (folder / "log").open("w") as log:
        prepare = [*java, "kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c", str(config)]
        subprocess.run(prepare, check=True, stdout=log, stderr=log)
        process = subprocess.Popen([*java, "kafka.Kafka", str(config)], stdout=log, stderr=log)
    try:
        _wait_for(port, process, folder / "log")
        yield Kafka(f"127.0.0.1:{port}", process.pid)
    finally:
        process.terminate()
        process.wait(60)


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _READY_TIMEOUT_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise SystemExit(f"Kafka did not start:\n{log.read_text()[-2000:]}")
