"""Commands that are declared by the signature of a function, on click.

    app = Commands("topic", help="Topics: list, create.")

    @app.command()
    def create(
        topic: Annotated[str, Argument(help="Its name.")],
        *,
        queues: Annotated[int, Option("--queues", min=1, help="How many.")] = 8,
    ) -> None:
        "Create a topic."

A parameter without a default is required; ``list[…]`` may be given several times, and is its default when it is not
given; a ``bool`` is a flag. What a signature says otherwise is a TypeError when the module is imported.

``LazyCommands`` know their commands by a line of text each, and import the module of one when it is used.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import partial
from importlib import import_module
from inspect import Parameter, cleandoc, signature
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    NamedTuple,
    TypedDict,
    TypeVar,
    Union,
    Unpack,
    get_args,
    get_origin,
)

import click

from pyromq.cli.option_records import unfolded

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

Completer = Callable[[str, click.Context, str], list[str]]  # kind of name, context, what was typed of it
FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])

_SIMPLE: Final[dict[Any, Any]] = {str: click.STRING, bool: click.BOOL}
_RANGES: Final[dict[Any, tuple[Any, type[Any]]]] = {
    int: (click.INT, click.IntRange),
    float: (click.FLOAT, click.FloatRange),
}


class _Given(TypedDict, total=False):
    """``show_default`` is a text in place of the default, or False for none; ``callback`` gets the value; ``exists``
    is for a Path that must be there; ``complete`` says what kind of name it is, for shells that complete it;
    ``flag_value`` is the value of an option that is given without one."""

    help: str
    metavar: str
    min: float | None
    max: float | None
    show_default: bool | str
    envvar: str | list[str]
    callback: Callable[[Any], object]
    is_eager: bool
    exists: bool
    hidden: bool
    complete: str
    flag_value: str


class Argument:
    """A word of the command line that is known by its place."""

    def __init__(self, **given: Unpack[_Given]) -> None:
        self.names: tuple[str, ...] = ()
        self.given = given


class Option:
    """``Option("--queues", "-q", help="How many.")``; without names ``--`` and that of the parameter."""

    def __init__(self, *names: str, **given: Unpack[_Given]) -> None:
        self.names = names
        self.given = given


_OTHER_WORDS: Final = {
    "ls": ("list", "all", "show"),
    "describe": ("show", "info", "status", "get", "view", "inspect"),
    "create": ("add", "new", "make", "update"),
    "delete": ("remove", "rm", "del", "drop"),
    "get": ("show", "read", "view"),
    "cluster": ("brokers", "clusters", "status", "replicas"),
    "redrive": ("resend", "retry", "replay", "requeue"),
    "cancel": ("recall", "delete", "remove", "rm"),
    "dlq": ("dead-letters", "dead-letter", "deadletters", "dead"),
    "acl": ("user", "users", "policy", "auth"),
    "find": ("search", "query"),
    "send": ("produce", "publish", "put"),
    "consume": ("receive", "subscribe", "read"),
    "up": ("start", "serve", "server", "dev"),
}
"""What people type for a command: words of other tools."""


def likely_meant(word: str, known: Sequence[str]) -> list[str]:
    """Commands that somebody may have meant who typed another word."""
    from difflib import get_close_matches

    typed = word.lower()
    synonyms = [name for name in known if typed in _OTHER_WORDS.get(name, ())]
    plural = [name for name in known if typed == f"{name}s"]
    return (synonyms or plural or get_close_matches(typed, known, n=2, cutoff=0.6))[:2]


class Commands(click.Group):
    """Commands of one noun, or the nouns themselves, in the order in which they were added."""

    def __init__(self, name: str | None = None, *, help: str | None = None) -> None:  # noqa: A002
        super().__init__(name, help=help, no_args_is_help=True)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Commands in the order of their declaration."""
        return list(self.commands)

    def all_commands(self) -> dict[str, click.Command]:
        """By name, in their order; those that were not imported yet are."""
        context = click.Context(self)
        found = {name: self.get_command(context, name) for name in self.list_commands(context)}
        return {name: command for name, command in found.items() if command is not None}

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """A command that does not exist is a UsageError that names the one that may be meant."""
        word = args[0]
        if not word.startswith("-") and not ctx.resilient_parsing and self.get_command(ctx, word) is None:
            meant = likely_meant(word, self.list_commands(ctx))
            hint = f" Did you mean {' or '.join(map(repr, meant))}?" if meant else ""
            raise click.UsageError(f"No such command {word!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def command(self, name: str | None = None) -> Callable[[FunctionT], FunctionT]:  # type: ignore[override]
        """Adds a function as a command, under its own name unless set otherwise."""

        def added(function: FunctionT) -> FunctionT:
            self.add_command(command_of(function, name or function.__name__.replace("_", "-")))
            return function

        return added

    def options(self, function: FunctionT) -> FunctionT:
        """Options before the command; the function is called with them first."""
        built = command_of(function, "")
        self.params, self.callback = built.params, built.callback
        self.help = self.help or built.help
        return function


class Place(NamedTuple):
    """Where a command is: a module, the name of a function or of ``Commands`` in it, and its line in a list."""

    module: str
    name: str
    help: str


class LazyCommands(Commands):
    """Commands whose modules are imported when they are used: help of one command does not wait for the others.

    ``complete_names``, if there is one, knows the names that a shell completes.
    """

    complete_names: Completer | None = None

    def __init__(self, name: str | None = None, *, help: str | None = None, places: Mapping[str, Place]) -> None:  # noqa: A002
        super().__init__(name, help=help)
        self.places = places

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self.places, *(name for name in self.commands if name not in self.places)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.commands and (place := self.places.get(cmd_name)) is not None:
            found = getattr(import_module(place.module), place.name)
            self.add_command(found if isinstance(found, click.Command) else command_of(found, cmd_name), cmd_name)
        return self.commands.get(cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [(name, self._line_of(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        names = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        found = [CompletionItem(name, help=self._line_of(ctx, name)) for name in names]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def _line_of(self, ctx: click.Context, name: str) -> str:
        place = self.places.get(name)
        return place.help if place else self.commands[name].get_short_help_str()


class _Command(click.Command):
    """Arguments have help, too."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for heading, kind in (("Arguments", click.Argument), ("Options", click.Option)):
            params = [param for param in self.get_params(ctx) if isinstance(param, kind)]
            if records := [record for param in params if (record := param.get_help_record(ctx))]:
                with formatter.section(heading):
                    formatter.write_dl(records)


class _OneOf(click.Choice[str]):
    """The values of an enumeration."""

    def __init__(self, kind: type[Enum]) -> None:
        super().__init__([str(member.value) for member in kind])
        self._kind = kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value if isinstance(value, self._kind) else self._kind(super().convert(value, param, ctx))


class _Argument(click.Argument):
    """With a help text."""

    def __init__(self, names: Sequence[str], *, help: str, **more: Any) -> None:  # noqa: A002
        super().__init__(names, **more)
        self.help_text = help

    def get_usage_pieces(self, ctx: click.Context) -> list[str]:
        shown = self.metavar or self.human_readable_name
        return [shown if self.required else f"[{shown}]"]

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:  # type: ignore[override]
        """None without a text: the line above has its name."""
        return (self.metavar or self.human_readable_name, self.help_text) if self.help_text else None


def _completed(kind: str, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    complete: Completer | None = getattr(ctx.find_root().command, "complete_names", None)
    return complete(kind, ctx, incomplete) if complete else []


# --- from signatures ---


def command_of(function: Callable[..., Any], name: str) -> click.Command:
    """The command that a function declares."""
    function = unfolded(function)
    parameters, params, lists, takes_context = signature(function, eval_str=True).parameters, [], set[str](), ""
    for each in parameters.values():
        if each.annotation is click.Context:
            takes_context = each.name
            continue
        param, is_list = _param_of(each)
        params.append(param)
        if is_list:
            lists.add(each.name)
    defaults = {each.name: None if each.default is Parameter.empty else each.default for each in parameters.values()}

    def called(**values: Any) -> Any:
        for word in lists:
            values[word] = list(values[word]) if values[word] else defaults[word]
        if takes_context:
            values[takes_context] = click.get_current_context()
        return function(**values)

    return _Command(name, callback=called, params=params, help=cleandoc(function.__doc__ or ""))


def _param_of(parameter: Parameter) -> tuple[click.Parameter, bool]:
    """What click reads for a parameter of a function, and whether it may be given several times."""
    where = f"parameter {parameter.name!r}"
    if get_origin(parameter.annotation) is not Annotated:
        raise TypeError(f"{where} needs Annotated[type, Option(…)] or Annotated[type, Argument(…)]")
    wanted, *marks = get_args(parameter.annotation)
    (mark,) = (each for each in marks if isinstance(each, Argument | Option))
    kind, is_list = _kind_of(wanted)
    given: dict[str, Any] = {**mark.given, "required": parameter.default is Parameter.empty}
    given["type"] = _type_of(kind, given, where)
    if parameter.default is not Parameter.empty:
        given["default"] = parameter.default  # also None: a flag without it would be False
    if (callback := given.pop("callback", None)) is not None:
        given["callback"] = lambda _context, _param, value: callback(value)
    if (kind_of_name := given.pop("complete", None)) is not None:
        given["shell_complete"] = partial(_completed, kind_of_name)
    make = _argument if isinstance(mark, Argument) else _option
    return make(parameter.name, mark.names, kind, is_list, given), is_list


def _argument(name: str, _: Sequence[str], kind: Any, is_list: bool, given: dict[str, Any]) -> click.Parameter:
    given.pop("show_default", None)
    return _Argument([name], nargs=-1 if is_list else 1, help=given.pop("help", ""), **given)


def _option(name: str, words: Sequence[str], kind: Any, is_list: bool, given: dict[str, Any]) -> click.Parameter:
    word = name.replace("_", "-")
    words = words or (f"--{word}/--no-{word}" if kind is bool else f"--{word}",)
    given.setdefault("show_default", given.get("default") != "")
    if kind in _RANGES:
        given.setdefault("metavar", _RANGES[kind][0].name.upper())
    if kind is bool:
        given["is_flag"] = True
    if "flag_value" in given:
        given["is_flag"] = False  # a value may follow
    return click.Option([name, *words], multiple=is_list, show_envvar=True, **given)


def _kind_of(wanted: Any) -> tuple[Any, bool]:
    """``list[str] | None``: str, several times."""
    if get_origin(wanted) in (Union, types.UnionType):
        (wanted,) = (each for each in get_args(wanted) if each is not types.NoneType)
    if get_origin(wanted) is list:
        return get_args(wanted)[0], True
    return wanted, False


def _type_of(kind: Any, given: dict[str, Any], where: str) -> Any:
    """Takes what is about the type out of what was given."""
    least, most, exists = (given.pop(name, None) for name in ("min", "max", "exists"))
    if kind in _RANGES:
        plain, ranged = _RANGES[kind]
        return plain if least is None and most is None else ranged(least, most)
    if kind is Path:
        return click.Path(exists=bool(exists), path_type=Path)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _OneOf(kind)
    if kind not in _SIMPLE:
        raise TypeError(f"{where}: no command takes {kind}")
    return _SIMPLE[kind]
