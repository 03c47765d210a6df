"""The command ``pyromq``: nouns are listed here, verbs live with their noun, errors become exit codes.

Only what ``--help`` needs is imported here; the module of a command is imported when it is used, and a command imports
the rest when it runs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated, Final

import click

from pyromq.cli.declared import LazyCommands, Option, Place
from pyromq.cli.error_texts import advise, in_options
from pyromq.cli.exit_codes import ExitCode, exit_code_of
from pyromq.cli.output.quiet import QuietOption
from pyromq.cli.tls import ConnectionOptions, put_into_environment
from pyromq.errors import ConfigError, MQError, printable

_SERVERS, _APPS = "pyromq.cli.servers.commands", "pyromq.cli.servers.apps"
_NOUNS, _EXAMINING = "pyromq.cli.nouns", "pyromq.cli.examining"
_PLACES: Final = {
    "up": Place(_SERVERS, "up", "Start a name server, a broker and the web console."),
    "nameserver": Place(_SERVERS, "nameserver", "Start a name server."),
    "broker": Place(_SERVERS, "broker", "Start a broker that registers with name servers."),
    "follow": Place(_SERVERS, "follow", "Keep a live copy of a running broker that does not count as its replica."),
    "failover": Place("pyromq.cli.servers.failover", "failover", "Run the failover agent of one broker."),
    "console": Place(
        "pyromq.cli.servers.console", "console", "Start the web console of a cluster: pages and an HTTP API."
    ),
    "exporter": Place(
        "pyromq.cli.servers.exporter",
        "exporter",
        "Serve the metrics of a RocketMQ cluster, PyroMQ's or Apache's.",
    ),
    "send": Place(f"{_NOUNS}.send_consume", "send", "Send a message, lines of text, or messages as JSON."),
    "consume": Place(f"{_NOUNS}.send_consume", "consume", "Consume a topic as a member of a group."),
    "tail": Place(f"{_NOUNS}.tail", "tail", "Show the newest messages of a topic."),
    "run": Place(_APPS, "run", "Run an app until SIGTERM or Ctrl-C, which drains it."),
    "app": Place(_APPS, "app", "Describe an app as an AsyncAPI document."),
    "top": Place("pyromq.cli.top.command", "top", "Watch topics, groups and lag live."),
    "doctor": Place(f"{_EXAMINING}.doctor", "doctor", "Examine name servers, brokers, groups and transactions."),
    "health": Place(f"{_EXAMINING}.health", "health", "Query a server's health endpoint."),
    "audit": Place(f"{_NOUNS}.audit", "audit", "Show who changed what, from where, and what was refused."),
    "find": Place(f"{_EXAMINING}.find", "find", "Find messages, topics, groups, clients and users by one text."),
    "topic": Place(
        f"{_NOUNS}.topic", "app", "Topics: ls, create, describe, schema, history, senders, retention, letters, delete."
    ),
    "group": Place(f"{_NOUNS}.group", "app", "Consumer groups: list, create, lag, describe, reset, park, delete."),
    "message": Place(f"{_NOUNS}.message", "app", "Messages: get, find, trace, explain, resend, consume-directly."),
    "dlq": Place(f"{_NOUNS}.dlq", "app", "Dead letters: ls, show, redrive."),
    "job": Place(f"{_NOUNS}.job", "app", "Bulk jobs: ls, show, resume, cancel."),
    "delay": Place(f"{_NOUNS}.delay", "app", "Delayed messages: list, cancel."),
    "tx": Place(f"{_NOUNS}.tx", "app", "Transactions: list open ones."),
    "cluster": Place(f"{_NOUNS}.cluster", "app", "Clusters: list brokers, replicas and leases, switch masters."),
    "settings": Place(f"{_NOUNS}.settings", "app", "Settings of running brokers: list, set."),
    "store": Place(f"{_NOUNS}.store", "app", "Inspect a store folder without a broker."),
    "tls": Place(f"{_NOUNS}.tls", "app", "Certificates of a small cluster: an authority, servers, clients."),
    "acl": Place(f"{_NOUNS}.acl", "app", "Access control: users, policies, and why something is refused."),
    "pipeline": Place(
        "pyromq.cli.pipeline.commands",
        "app",
        "Jobs on Spark: archive, replay, redrive, report, dedupe, store, run; table, mirror without.",
    ),
    "sql": Place("pyromq.cli.pipeline.sql", "sql", "Answer a question in SQL about topics."),
    "context": Place(
        f"{_NOUNS}.context", "app", "Contexts: clusters by name, with their addresses, credentials and TLS."
    ),
    "completion": Place("pyromq.cli.completion.command", "completion", "Print the completion script of a shell."),
    "mqadmin": Place("pyromq.cli.mqadmin.commands", "app", "RocketMQ's mqadmin: its sub-commands and options."),
}
_WITHOUT_CLUSTER: Final = ("up", "nameserver", "broker", "follow", "failover", "store", "tls", "context", "completion")
"""A context is for commands that are clients: servers have settings of their own, and some reach no cluster."""


class _ReaderGoneError(Exception):
    """Nobody reads standard output any more."""


class _App(LazyCommands):
    """A reader that goes ends a command with a code of its own; click would make it 1, which is wrong usage here."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise _ReaderGoneError from error
        except MQError as error:
            advise(error, os.environ)
            raise


def _complete_names(kind: str, context: click.Context, incomplete: str) -> list[str]:
    from pyromq.cli.completion.names import completed

    return completed(kind, context, incomplete)


app = _App("pyromq", help="Apache RocketMQ's message system in Python.", places=_PLACES)
app.complete_names = _complete_names


def main(args: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code. Errors that are not ours come out as they are."""
    try:
        result = app(args=args, prog_name="pyromq", standalone_mode=False)
        sys.stdout.flush()
        return result if isinstance(result, int) else ExitCode.OK
    except click.UsageError as error:
        error.show()
        return ExitCode.USAGE
    except MQError as error:
        sys.stderr.write(f"pyromq: {printable(in_options(error))}\n")
        return exit_code_of(error)
    except click.Abort:
        return ExitCode.INTERRUPTED
    except (_ReaderGoneError, BrokenPipeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the flush at exit complains again
        return ExitCode.BROKEN_PIPE


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        from pyromq.compiled_core import DESCRIPTION

        sys.stdout.write(f"pyromq {version('pyromq')}, {DESCRIPTION}\n")
        raise click.exceptions.Exit


ContextOption = Annotated[
    str,
    Option(
        "--context",
        metavar="NAME",
        complete="contexts",
        help="Cluster to talk to, instead of the one in use (pyromq context ls).",
        show_default="PYROMQ_CONTEXT",
    ),
]


@app.options
def _options(
    context: click.Context,
    connection: ConnectionOptions,
    named: ContextOption = "",
    quiet: QuietOption = False,
    _version: Annotated[
        bool, Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Apache RocketMQ's message system in Python."""
    given = {name: value for name, value in connection.variables().items() if value is not None}
    if context.invoked_subcommand not in _WITHOUT_CLUSTER:
        from pyromq.cli.contexts import chosen_variables

        given = {**chosen_variables(named, os.environ, frozenset(given)), **given}
    elif named:
        raise ConfigError(f"pyromq {context.invoked_subcommand} talks to no cluster: leave --context out")
    context.call_on_close(put_into_environment(given))
