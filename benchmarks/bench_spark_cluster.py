"""Throughput of a standalone Spark cluster by the number of its executors, with one broker and with two.

    python -m benchmarks.bench_spark_cluster [messages] [executors] [brokers] [lane] [share]   600000 "1 2 4" "1 2" auto

Executors are processes of their own, with one task at a time each. Rows are read with bodies of 1 KiB and thrown away;
then once more with a wait of 20 µs for each, as work that waits for a database has it: so executors are the limit
also where cores are few. Beside rows/s stands what the brokers took of a core meanwhile, all together. With a share,
such as 0.05, each broker gets no more than that of a core (by a control group of Linux; needs root): so brokers are the
limit before the machine is.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyspark

from benchmarks.bench_spark import BODY
from benchmarks.measure import machine
from benchmarks.spark_bench import SEND_BATCH, TICKS, TOPIC, cpu_of, fill
from pyromq.pipeline import session
from pyromq.pipeline.spark.java import java_home
from pyromq.testing import ServerProcess, free_port

ROUNDS = 2
_PERIOD_US = 100_000  # the kernel takes no less than a millisecond of it


def main() -> None:
    count = (int(sys.argv[1]) if len(sys.argv) > 1 else 600_000) // SEND_BATCH * SEND_BATCH
    executors = [int(each) for each in (sys.argv[2] if len(sys.argv) > 2 else "1 2 4").split()]
    brokers = [int(each) for each in (sys.argv[3] if len(sys.argv) > 3 else "1 2").split()]
    lane = sys.argv[4] if len(sys.argv) > 4 else "auto"
    share = float(sys.argv[5]) if len(sys.argv) > 5 else 0.0
    held = f", {share:g} of a core for each broker" if share else ""
    print(machine(), f"lane {lane}{held}, load {os.getloadavg()[0]:.1f}", sep="; ")
    print(f"{'brokers':>8} {'executors':>10} {'rows/s':>12} {'of a core':>10} {'with waits':>12} {'of a core':>10}")
    for many in brokers:
        with ExitStack() as stack:
            nameserver, pids = stack.enter_context(_brokers(many))
            fill(nameserver, count)
            for pid in pids if share else ():
                stack.enter_context(_held_to(share, pid))
            for each in executors:
                with _cluster(each) as master:
                    (rate, taken), (slow, little) = _measured(master, each, nameserver, pids, count, lane)
                shown = f"{many:8} {each:10} {rate:12,.0f} {taken:10.2f} {slow:12,.0f} {little:10.2f}"
                print(f"{shown}   load {os.getloadavg()[0]:.1f}", flush=True)


@contextmanager
def _brokers(count: int) -> Iterator[tuple[str, list[int]]]:
    """A name server and some brokers; the topic has its queues on each of them."""
    with ExitStack() as stack:
        names = stack.enter_context(ServerProcess("nameserver"))
        running = [
            stack.enter_context(
                ServerProcess("broker", "--nameserver", names.nameserver, "--name", f"broker-{number}", "--no-grpc")
            )
            for number in range(count)
        ]
        yield names.nameserver, [each.pid for each in running]


@contextmanager
def _held_to(share: float, pid: int) -> Iterator[None]:
    """That process gets no more of a core, in portions of a tenth of a second, until the end."""
    version_1, version_2 = Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")
    group = (version_1 if version_1.exists() else version_2) / f"pyromq-bench-{pid}"
    group.mkdir()
    try:
        quota_us = round(_PERIOD_US * share)
        if group.parent == version_1:
            (group / "cpu.cfs_period_us").write_text(f"{_PERIOD_US}")
            (group / "cpu.cfs_quota_us").write_text(f"{quota_us}")
        else:
            (group / "cpu.max").write_text(f"{quota_us} {_PERIOD_US}")
        (group / "cgroup.procs").write_text(f"{pid}")
        yield
    finally:
        (group.parent / "cgroup.procs").write_text(f"{pid}")  # a group must be empty to be removed
        group.rmdir()


@contextmanager
def _cluster(executors: int) -> Iterator[str]:
    """Master and worker of a standalone cluster; the worker starts executors of one core each."""
    port, binary = free_port(), str(Path(pyspark.__file__).parent / "bin" / "spark-class")
    address, ports = f"spark://127.0.0.1:{port}", ["--webui-port", "0"]
    environment = {
        **os.environ, "JAVA_HOME": str(java_home()), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "512m",
    }  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="pyromq-bench-") as folder, ExitStack() as stack:
        for name, more in (
            ("master.Master", ["--host", "127.0.0.1", "--port", str(port)]),
            (
                "worker.Worker",
                ["--host", "127.0.0.1", "--cores", str(executors), "--memory", "4g", "--work-dir", folder],
            ),
        ):
            command = [binary, f"org.apache.spark.deploy.{name}", *more, *ports]
            command += [address] if name.startswith("worker") else []
            process = subprocess.Popen(command, env=environment, cwd=folder, stderr=subprocess.DEVNULL)
            stack.callback(process.wait)
            stack.callback(process.kill)
        time.sleep(8)
        yield address


def _measured(
    master: str, executors: int, nameserver: str, pids: list[int], count: int, lane: str
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Rows a second of the best round, and what brokers took of a core in it; without and with waits."""
    settings: dict[str, Any] = {
        "spark.ui.enabled": "false", "spark.log.level": "OFF", "spark.driver.host": "127.0.0.1",
        "spark.executor.cores": 1, "spark.cores.max": executors, "spark.executor.memory": "768m",
        "spark.pyromq.lane": lane,
    }  # fmt: skip
    spark = session(master, "bench", **settings)

    def read(*, waits: bool) -> tuple[float, float]:
        options = {"nameserver": nameserver, "topic": TOPIC, "minPartitions": "8"}
        frame = spark.read.format("pyromq").options(**options).schema(BODY).load()
        frame = frame.mapInArrow(_waiting, frame.schema) if waits else frame
        ticks, begun = sum(map(cpu_of, pids)), time.perf_counter()
        frame.write.format("noop").mode("overwrite").save()
        took = time.perf_counter() - begun
        return count / took, (sum(map(cpu_of, pids)) - ticks) / TICKS / took

    found = [(read(waits=False), read(waits=True)) for _ in range(ROUNDS + 1)][1:]  # the first starts and compiles
    spark.stop()
    return max(each for each, _ in found), max(each for _, each in found)


def _waiting(batches: Iterator[Any]) -> Iterator[Any]:
    import time  # in the executor

    for batch in batches:
        time.sleep(batch.num_rows * 20e-6)
        yield batch


if __name__ == "__main__":
    main()
