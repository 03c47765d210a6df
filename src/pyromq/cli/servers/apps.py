"""``pyromq run`` and ``pyromq app``: apps as processes, and documents of them."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from pyromq.cli.declared import Argument, Commands, Option
from pyromq.cli.servers.commands import log_to_stderr
from pyromq.cli.servers.options import AppLogOptions

TargetArgument = Annotated[
    str, Argument(metavar="MODULE:APP", help="Where the App is: shop.main:app, or shop:make_app().")
]

app = Commands(help="Describe an app as an AsyncAPI document.")


class DocumentFormat(StrEnum):
    JSON = "json"
    YAML = "yaml"


def run(
    target: TargetArgument,
    workers: Annotated[int, Option("--workers", "-w", min=1, help="Processes that share the work.")] = 1,
    reload: Annotated[bool, Option("--reload", help="Begin anew when a source file changes.")] = False,
    reload_dir: Annotated[
        list[Path] | None, Option("--reload-dir", help="Folder to watch, instead of this one.", exists=True)
    ] = None,
    nameserver: Annotated[
        str, Option("--nameserver", "-n", metavar="HOST:PORT[;…]", help="In place of what the app says.")
    ] = "",
    health_port: Annotated[
        int | None, Option(help="Serve /live and /ready here; 0 chooses a port.", min=0, max=65_535)
    ] = None,
    health_host: Annotated[str, Option(help="Address of the health endpoint.")] = "127.0.0.1",
    *,
    logs: AppLogOptions,
) -> int:
    """Run an app until SIGTERM or Ctrl-C, which drains it: listeners finish, offsets are committed.

    With several workers, one that dies is started again; a second signal ends all at once. Prints one line when
    messages begin to come.
    """
    log_to_stderr(logs.log, logs.log_format)
    from pyromq.app.process import RunOptions, run_process, to_stderr, to_stdout

    options = RunOptions(
        target=target,
        nameserver=nameserver,
        workers=workers,
        reload=reload,
        reload_folders=tuple(reload_dir or ()),
        health_port=health_port,
        health_host=health_host,
        worker_arguments=logs.words(),
    )
    return run_process(options, out=to_stdout, tell=to_stderr)


@app.command("docs")
def docs(
    target: TargetArgument,
    output: Annotated[Path | None, Option("--output", "-o", help="File, instead of standard output.")] = None,
    form: Annotated[DocumentFormat | None, Option("--format", help="By the file's ending without.")] = None,
    version: Annotated[str, Option(help="Version of the app, for the document.")] = "1.0.0",
) -> None:
    """Write the AsyncAPI 3 document of an app: topics, listeners, types of messages."""
    import msgspec

    from pyromq.app.loading import load_app
    from pyromq.app.yaml_text import to_yaml

    document = load_app(target).asyncapi(version=version)
    ending = "" if output is None else output.suffix
    is_yaml = form is DocumentFormat.YAML or (form is None and ending in (".yaml", ".yml"))
    text = to_yaml(document) if is_yaml else msgspec.json.format(msgspec.json.encode(document)).decode() + "\n"
    if output is None:
        sys.stdout.write(text)
    else:
        output.write_text(text, encoding="utf-8")


@app.command("check")
def check(target: TargetArgument) -> None:
    """Whether the functions of an app fit what they will be called with; nothing is connected."""
    from pyromq.app.loading import load_app

    found = load_app(target)
    found.check()
    sys.stdout.write(f"{found.name or 'app'}: {len(found.listeners)} listeners fit\n")
