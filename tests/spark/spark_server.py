"""Processes of Spark beside the one of these tests: a Connect server, or a master with workers; on loopback."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Self

import pyspark

from pyromq.pipeline.spark.home import light_home
from pyromq.pipeline.spark.java import cache_folder, java_home
from pyromq.testing import free_port

ROOT = Path(__file__).parents[2]
_START_S = 90
_PROGRAM_S = 300
_QUICK = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData"


def environment() -> dict[str, str]:
    """For every process of Spark: our interpreter, and what these tests import."""
    return {
        **os.environ,
        "JAVA_HOME": str(java_home()),
        "SPARK_HOME": str(light_home(Path(pyspark.__file__).parent, cache_folder())),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "512m",
        "SPARK_DAEMON_JAVA_OPTS": _QUICK,
        "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT))),
    }


def run_program(module: str, *arguments: str) -> dict[str, Any]:
    """What a program told, name by name, in lines of JSON; it ends well."""
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(
        command, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=_PROGRAM_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told = dict(json.loads(line) for line in done.stdout.splitlines() if line.startswith("["))
    return {**told, "warnings": [line for line in done.stderr.splitlines() if "Warning:" in line]}


class SparkProcess:
    """``with SparkProcess(…) as running``: it listens on its port when that begins, and is gone when it ends."""

    def __init__(self, command: list[str], port: int, folder: Path) -> None:
        self._command, self._port, self._folder = command, port, folder

    def __enter__(self) -> Self:
        self._log = (self._folder / f"{self._port}.log").open("w+")
        self.process = subprocess.Popen(
            [str(Path(pyspark.__file__).parent / "bin" / self._command[0]), *self._command[1:]],
            env=environment(), cwd=self._folder, stdout=self._log, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        try:
            self._wait()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.kill()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self._log.close()

    def _wait(self) -> None:
        deadline = time.monotonic() + _START_S
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self._port)) == 0:
                    return
            self._log.seek(0)
            assert self.process.poll() is None, self._log.read()
            assert time.monotonic() < deadline, "it did not start"
            time.sleep(0.05)


def connect_server(folder: Path) -> tuple[SparkProcess, str]:
    """Not started yet, and the address for clients."""
    port = free_port()
    settings = {
        "spark.connect.grpc.binding.port": port,
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.local.dir": tempfile.gettempdir(),
        "spark.sql.warehouse.dir": folder,
        "spark.sql.shuffle.partitions": 2,
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.log.level": "ERROR",
    }
    command = ["spark-submit", "--master", "local[2]", "--driver-java-options", _QUICK]
    command += [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
    return SparkProcess(command, port, folder), f"sc://127.0.0.1:{port}"


def master_process(folder: Path) -> tuple[SparkProcess, str]:
    """Of a standalone cluster, not started yet, and its address."""
    port = free_port()
    command = ["spark-class", "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1"]
    command += ["--port", str(port), "--webui-port", str(free_port())]
    return SparkProcess(command, port, folder), f"spark://127.0.0.1:{port}"


def worker_process(master: str, folder: Path, cores: int) -> SparkProcess:
    """A machine of the cluster; its executors are processes of their own."""
    port = free_port()
    command = ["spark-class", "org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--webui-port", str(free_port()), "--cores", str(cores), "--memory", "2g", "--work-dir", str(folder)]
    return SparkProcess([*command, master], port, folder)
