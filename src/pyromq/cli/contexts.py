"""Contexts: clusters by name, each with its name servers, credentials and TLS; one of them may be the one in use.

They are kept in ``$XDG_CONFIG_HOME/pyromq/contexts.json`` (``~/.config/…``), which only its owner may read:

    {"current": "prod", "contexts": {"prod": {"nameserver": "10.0.0.1:9876", "access_key": "ann", "secret_key": "…"}}}

The file is replaced whole: a crash leaves the old one or the new one. Commands that change it take turns, by a lock on
its folder. A file that others may read is refused: it may hold passwords. A context becomes environment variables of
the command (``variables_for``), so that an option wins over a variable, and a variable over the context in use.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final

from pyromq.errors import ConfigError

CONTEXT_VARIABLE: Final = "PYROMQ_CONTEXT"
_FILE_BYTES_MAX: Final = 1 << 20
_is_name = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}").fullmatch
_UNITS: Final = (  # variables that are given together, or not at all: nobody's password goes with somebody else's name
    ("PYROMQ_NAMESERVER", "NAMESRV_ADDR"),
    ("PYROMQ_ACCESS_KEY", "PYROMQ_SECRET_KEY", "PYROMQ_SECRET_KEY_FILE", "PYROMQ_SECURITY_TOKEN"),
    ("PYROMQ_TLS", "PYROMQ_TLS_CA", "PYROMQ_TLS_CERTIFICATE", "PYROMQ_TLS_KEY"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterContext:
    """How one cluster is reached. Its text leaves the secret out."""

    nameserver: str
    access_key: str = ""
    secret_key: str = field(default="", repr=False)
    secret_key_file: str = ""
    tls: bool | None = None
    tls_ca: str = ""
    tls_certificate: str = ""
    tls_key: str = ""

    def variables(self) -> dict[str, str]:
        """The environment that a client reads it from."""
        given = {name: getattr(self, name) for name in (each.name for each in fields(self))}
        return {f"PYROMQ_{name.upper()}": _text(value) for name, value in given.items() if value not in ("", None)}


@dataclass(frozen=True, slots=True)
class Contexts:
    current: str = ""
    by_name: Mapping[str, ClusterContext] = field(default_factory=dict)

    def require(self, name: str) -> ClusterContext:
        """Return the context of this name. Raises ConfigError when there is none."""
        if name not in self.by_name:
            known = ", ".join(sorted(self.by_name)) or "none yet: pyromq context add"
            raise ConfigError(f"there is no context {name!r}; there are: {known}")
        return self.by_name[name]

    def with_context(self, name: str, context: ClusterContext) -> Contexts:
        """Return contexts with this one added. Raises ConfigError for a name that cannot be typed."""
        if not _is_name(name):
            raise ConfigError(f"{name!r} is not a name for a context: use letters, digits, and . _ - (64 at most)")
        return replace(self, by_name={**self.by_name, name: context})

    def without(self, name: str) -> Contexts:
        """Return contexts without this one. Raises ConfigError when there is none."""
        self.require(name)
        rest = {each: context for each, context in self.by_name.items() if each != name}
        return Contexts("" if self.current == name else self.current, rest)

    def using(self, name: str) -> Contexts:
        """An empty name: none. Raises ConfigError."""
        if name:
            self.require(name)
        return replace(self, current=name)


def contexts_file(environment: Mapping[str, str]) -> Path:
    home = environment.get("XDG_CONFIG_HOME") or ""
    folder = Path(home) if home.startswith("/") else Path.home() / ".config"
    return folder / "pyromq" / "contexts.json"


def read_contexts(file: Path) -> Contexts:
    """None if there is no file. Raises ConfigError for one that is damaged, or that others may read."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return Contexts()
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from error
    with os.fdopen(descriptor, "rb") as opened:
        if stat.S_IMODE(os.fstat(descriptor).st_mode) & 0o077:
            raise ConfigError(f"{file} may hold passwords, and others can read it: chmod 600 {file}")
        data = opened.read(_FILE_BYTES_MAX + 1)
    if len(data) > _FILE_BYTES_MAX:
        raise ConfigError(f"{file} is longer than {_FILE_BYTES_MAX} bytes: no list of contexts is")
    return _decoded(data, file)


@contextmanager
def changing(file: Path) -> Iterator[list[Contexts]]:
    """``with changing(file) as held: held[0] = held[0].using("prod")``; written whole at the end, unless it raises.

    Commands that do so at the same time wait for each other. Raises ConfigError.
    """
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise ConfigError(f"{file.parent} cannot be used for contexts: {error.strerror}") from error
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        held = [before := read_contexts(file)]
        yield held
        if held[0] != before:
            _write_whole(file, folder, _encoded(held[0]))
    finally:
        os.close(folder)


def variables_for(
    context: ClusterContext, environment: Mapping[str, str], *, is_chosen: bool, given: frozenset[str]
) -> dict[str, str]:
    """What a context adds to the environment. A variable that is set wins over it, with those that belong to it.

    ``is_chosen``: it was named on the command line, so it wins over all variables, and what it does not have is not
    taken from them. ``given`` are the variables of options: what belongs to one of them is not the context's.
    """
    own = context.variables()
    found: dict[str, str] = {}
    for unit in _UNITS:
        if given.intersection(unit):
            continue
        if is_chosen:
            found |= {name: own.get(name, "") for name in unit if name in own or name in environment}
        elif not any(environment.get(name) for name in unit):
            found |= {name: own[name] for name in unit if name in own}
    return found


def chosen_variables(named: str, environment: Mapping[str, str], given: frozenset[str]) -> dict[str, str]:
    """Those of the context that a command uses: named on the command line, by PYROMQ_CONTEXT, or the one in use.

    Raises ConfigError for one that is not there.
    """
    found = read_contexts(contexts_file(environment))
    name = named or environment.get(CONTEXT_VARIABLE, "") or found.current
    return variables_for(found.require(name), environment, is_chosen=bool(named), given=given) if name else {}


def _decoded(data: bytes, file: Path) -> Contexts:
    try:
        record = json.loads(data)
        table = {name: _context(each) for name, each in record["contexts"].items()}
        current = record.get("current", "")
        if not isinstance(current, str):
            raise TypeError("current is not a name")
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        # the text of an error may quote the file, which holds passwords
        raise ConfigError(f"{file} is damaged ({type(error).__name__}): mend it, or delete it and add again") from None
    return Contexts(current if current in table else "", table)


def _context(record: dict[str, Any]) -> ClusterContext:
    known = {each.name: bool if each.name == "tls" else str for each in fields(ClusterContext)}
    for name, value in record.items():
        if name in known and value is not None and not isinstance(value, known[name]):
            raise TypeError(name)
    return ClusterContext(**{name: value for name, value in record.items() if name in known})


def _encoded(contexts: Contexts) -> bytes:
    table = {}
    for name, context in sorted(contexts.by_name.items()):
        values = {each.name: getattr(context, each.name) for each in fields(context)}
        table[name] = {key: value for key, value in values.items() if value not in ("", None)}
    return json.dumps({"current": contexts.current, "contexts": table}, indent=2).encode() + b"\n"


def _write_whole(file: Path, folder: int, data: bytes) -> None:
    aside = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        aside.unlink(missing_ok=True)
        descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as opened:
            opened.write(data)
            opened.flush()
            os.fsync(descriptor)
        aside.replace(file)
        os.fsync(folder)
    except OSError as error:
        aside.unlink(missing_ok=True)
        raise ConfigError(f"{file} cannot be written: {error.strerror}") from error


def _text(value: bool | str) -> str:
    return str(value).lower() if isinstance(value, bool) else value
