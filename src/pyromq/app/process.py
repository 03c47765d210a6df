"""An app as a process: alone with its health endpoint, or as a worker that reports to its supervisor."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from pyromq.app.health import LOOPBACK, HealthServer, RunHealth
from pyromq.app.loading import load_app
from pyromq.app.reloading import Sources
from pyromq.app.run import AppRunState, Run
from pyromq.app.supervisor import NUMBER_VARIABLE, WORKERS_MAX, Supervisor, worker_command
from pyromq.app.worker_link import FD_VARIABLE, own_link, report_to
from pyromq.client.sync.loop_thread import new_event_loop
from pyromq.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Those of ``pyromq run``. Raises ConfigError."""

    target: str
    nameserver: str = ""
    workers: int = 1
    reload: bool = False
    reload_folders: tuple[Path, ...] = ()
    health_port: int | None = None
    health_host: str = LOOPBACK
    worker_arguments: tuple[str, ...] = ()  # that workers get, too

    def __post_init__(self) -> None:
        if not 1 <= self.workers <= WORKERS_MAX:
            raise ConfigError(f"--workers must be 1 to {WORKERS_MAX}, not {self.workers}")
        if self.health_port is not None and not 0 <= self.health_port <= 65_535:
            raise ConfigError(f"--health-port must be 0 to 65535, not {self.health_port}")
        if self.reload_folders and not self.reload:
            raise ConfigError("--reload-dir is for --reload")


def run_process(options: RunOptions, *, out: Callable[[str], None], tell: Callable[[str], None]) -> int:
    """Runs until signals end it; the exit code. ``out`` takes the line that says ready, ``tell`` lines for people."""
    is_worker = FD_VARIABLE in os.environ
    is_supervisor = not is_worker and (options.workers > 1 or options.reload)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(_supervise(options, out, tell) if is_supervisor else _serve(options, out))


async def _serve(options: RunOptions, out: Callable[[str], None]) -> int:
    app, link = load_app(options.target), own_link()
    runs: list[Run] = []
    reporting: list[asyncio.Task[None]] = []
    server: HealthServer | None = None

    def on_ready(run: Run) -> None:
        runs.append(run)
        if link is not None:
            reporting.append(asyncio.ensure_future(report_to(link, run, app.stop)))
        else:
            out(_ready(app.name, listeners=len(app.listeners), health=server))

    def look() -> RunHealth:
        facts = runs[0].report() if runs else {"state": AppRunState.STARTING.value}
        return RunHealth(True, bool(runs) and runs[0].is_ready, facts)

    async with AsyncExitStack() as stack:
        if link is not None:
            stack.callback(link.close)
        elif options.health_port is not None:
            server = HealthServer(look, port=options.health_port, host=options.health_host)
            await stack.enter_async_context(server)
        try:
            await app.serve(options.nameserver, instance=os.environ.get(NUMBER_VARIABLE, "1"), on_ready=on_ready)
        finally:
            for task in reporting:
                task.cancel()
    return 0


async def _supervise(options: RunOptions, out: Callable[[str], None], tell: Callable[[str], None]) -> int:
    more = ("--nameserver", options.nameserver) if options.nameserver else ()
    server: HealthServer | None = None
    supervisor = Supervisor(
        worker_command(options.target, *more, *options.worker_arguments),
        options.workers,
        sources=Sources(options.reload_folders or (Path.cwd(),)) if options.reload else None,
        tell=tell,
        on_ready=lambda: out(_ready(options.target, workers=options.workers, health=server)),
    )
    async with AsyncExitStack() as stack:
        if options.health_port is not None:
            server = HealthServer(supervisor.health, port=options.health_port, host=options.health_host)
            await stack.enter_async_context(server)
        return await supervisor.run()


def _ready(name: str, *, health: HealthServer | None, **counts: int) -> str:
    words = ["ready", f"app={name or 'app'}", *(f"{what}={count}" for what, count in counts.items())]
    words.append(f"pid={os.getpid()}")
    if health is not None:
        words.append(f"health={health.port}")
    return " ".join(words)


def to_stdout(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def to_stderr(line: str) -> None:
    sys.stderr.write(f"pyromq: {line}\n")
    sys.stderr.flush()
