"""Command lines that pages show: each is one that ``pyromq`` takes."""

from __future__ import annotations

import asyncio
import html
import re
import shlex

import click
import pytest

from pyromq.cli.main import app
from pyromq.operate.jobs.specs import CopyTopic, Delete, Move, Redrive, Resend, ResetOffsets
from tests.unit.console.rig import ConsoleRig

pytestmark = pytest.mark.usefixtures("quiet")

PAGES = (
    "/groups",
    "/groups/billing",
    "/groups/billing/reset",
    "/groups/billing/reset?topic=orders&to=earliest",
    "/groups/billing/delete",
    "/messages",
    "/messages?topic=orders&tag=a+%7C%7C+b",
    "/messages?topic=orders&key=k&begin=2h+ago&end=now",
    "/messages?topic=orders&id=7F",
    "/tail?topic=orders&tag=a",
    "/dead-letters",
    "/dead-letters/billing?key=k+1&tag=t&error=ValueError",
    "/retries",
)


def lines_of(page: str) -> list[str]:
    """What stands behind the dollar of a command, each part of a pipe by itself."""
    found = [html.unescape(text) for text in re.findall(r"<code>(pyromq [^<]*)</code>", page)]
    return [part.strip() for line in found for part in line.split(" | ")]


def parsed(line: str) -> click.Context:
    """Raises click.UsageError for what the command line does not take."""
    words = shlex.split(line)[1:]
    command: click.Command = app
    parent = None
    while isinstance(command, click.Group):
        parent = click.Context(command, info_name=words[0], parent=parent)
        found = command.get_command(parent, words[0])
        assert found is not None, f"there is no command {words[0]!r}: {line}"
        command, words = found, words[1:]
    return command.make_context(command.name, words, parent=parent)


def test_every_command_line_of_a_page_is_one_that_is_taken() -> None:
    async def run() -> None:
        async with ConsoleRig() as rig:
            await rig.admin.topics.create("orders", queues=1)
            await rig.admin.groups.create("billing")
            seen = []
            for path in PAGES:
                page = await rig.page(path)
                seen += lines_of(page)
                assert lines_of(page), f"{path} shows no command line"
            for line in seen:
                parsed(line)

    asyncio.run(run())


@pytest.mark.parametrize(
    "spec",
    [
        Redrive(group="billing", keys=("a b",), tags=("t",), errors=("ValueError",), only_group=True),
        ResetOffsets(group="g", moves=(Move(topic="t", broker="b", queue=1, new=5),)),
        Delete(what="topic", names=("a", "b")),
        Delete(what="group", names=("g",)),
        Redrive(group="g", letters=("x",)),
        CopyTopic(topic="a", to_topic="b"),
        Resend(messages=("x",)),
    ],
)
def test_command_lines_of_jobs_are_taken(spec: Redrive | ResetOffsets | Delete | CopyTopic | Resend) -> None:
    for words in spec.commands():
        parsed(shlex.join(["pyromq", *words]))
