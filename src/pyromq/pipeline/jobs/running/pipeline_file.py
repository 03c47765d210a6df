"""A pipeline described in a file, TOML or YAML: a source, steps, sinks. Parsed and checked before Spark is started.

    name = "paid-orders"
    checkpoint = "checkpoints"

    [source]
    topic = "orders"

    [[step]]
    sql = "SELECT * FROM input WHERE tags = 'paid'"

    [[sink]]
    kind = "parquet"
    path = "paid"

YAML has the same names: lists ``step`` and ``sink``. Paths are relative to the file. Every mistake is told with its
place in the file.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from pyromq.errors import ConfigError
from pyromq.pipeline.core.errors import OptionError
from pyromq.pipeline.core.option_texts import option_text
from pyromq.pipeline.core.options import Use, parse_options
from pyromq.pipeline.jobs.common.errors import PipelineFileError
from pyromq.pipeline.sink.options import parse_sink_options

Mode = Literal["once", "follow", "batch"]
TOPIC, CONSOLE, NOOP = "topic", "console", "noop"
FILES: Final = ("parquet", "orc", "json", "csv", "delta")
KINDS: Final = (TOPIC, *FILES, CONSOLE, NOOP)
INPUT: Final = "input"
_is_name = re.compile(r"[A-Za-z_]\w*").fullmatch
_span = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)").fullmatch
_REACHING: Final = ("nameserver", "namespace", "accesskey", "secretkey", "securitytoken")
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


class PipelineStep(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``sql`` reads the view ``input`` (what the step before gave) and views of named steps; ``python`` is a
    function of a DataFrame that returns one, as ``module:function``.
    """

    sql: str = ""
    python: str = ""
    name: str = ""


class Sink(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"from_": "from"}):
    """``from`` is the name of a step, the last one without."""

    kind: str
    name: str = ""
    from_: str = ""
    path: str = ""
    topic: str = ""
    partition_by: tuple[str, ...] = ()
    options: dict[str, str | int | float | bool] = {}


class PipelineFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``mode``: once reads what there is and remembers where it was, follow goes on, batch reads without memory."""

    name: str
    source: dict[str, str | int | float | bool]
    sink: tuple[Sink, ...]
    step: tuple[PipelineStep, ...] = ()
    mode: Mode = "once"
    every: str = "10s"
    checkpoint: str = ""
    spark: dict[str, str | int | float | bool] = {}

    @property
    def every_s(self) -> float:
        found = _span(self.every)
        assert found, "checked when the file was read"
        return float(found[1]) * _UNITS[found[2]]

    def sink_name(self, number: int) -> str:
        return self.sink[number].name or f"sink{number}"

    def checkpoint_of(self, number: int, folder: Path) -> str:
        """Of a sink; several pipelines may name the same folder."""
        return f"{placed(self.checkpoint, folder)}/{self.name}/{self.sink_name(number)}"

    def group_of(self, number: int) -> str:
        """Sinks are queries of their own, so each has its own progress."""
        group = str(self.source.get("group", self.name))
        return group if len(self.sink) == 1 else f"{group}-{self.sink_name(number)}"

    def source_options(self, group: str) -> dict[str, str]:
        given = {**self.source, **({"group": group} if self.mode != "batch" else {})}
        if self.mode != "batch" and not any(name.lower().startswith("starting") for name in given):
            given["startingOffsets"] = "earliest"
        return {name: option_text(value) for name, value in given.items()}

    def sink_options(self, sink: Sink) -> dict[str, str]:
        """Of one that writes to a topic: brokers are reached as those of the source are."""
        given = {**{name: value for name, value in self.source.items() if _is_reaching(name)}, **sink.options}
        return {**{name: option_text(value) for name, value in given.items()}, "topic": sink.topic}


def placed(path: str, folder: Path) -> str:
    """A path of the file, which lies in ``folder``; one with a scheme (``s3://…``) stays as it is."""
    return path.rstrip("/") if "://" in path else str(folder / path)


def _is_reaching(option: str) -> bool:
    return option.lower() in _REACHING or option.lower().startswith("tls")


def read_pipeline_file(path: Path) -> PipelineFile:
    """Raises PipelineFileError."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise PipelineFileError(str(path), f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise PipelineFileError(str(path), "it is not text in UTF-8") from error
    return parse_pipeline(text, where=str(path), is_yaml=path.suffix.lower() in (".yaml", ".yml"))


def parse_pipeline(text: str, *, where: str = "pipeline", is_yaml: bool = False) -> PipelineFile:
    """Raises PipelineFileError."""
    raw = _from_yaml(text, where) if is_yaml else _from_toml(text, where)
    try:
        found = msgspec.convert(raw, PipelineFile)
    except msgspec.ValidationError as error:
        raise PipelineFileError(where, _in_words(str(error))) from error
    _check(found, where)
    return found


def _from_toml(text: str, where: str) -> Any:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PipelineFileError(where, f"it is not TOML: {error}") from error


def _from_yaml(text: str, where: str) -> Any:
    try:
        return msgspec.yaml.decode(text)
    except ImportError as error:
        raise PipelineFileError(where, "YAML needs a package: pip install pyyaml. TOML needs none") from error
    except msgspec.DecodeError as error:
        raise PipelineFileError(where, f"it is not YAML: {' '.join(str(error).split())}") from error


def _in_words(text: str) -> str:
    """``Object contains unknown field `x` - at `$.sink[0]` `` becomes ``sink[0]: unknown field `x` ``."""
    reason, _, place = text.partition(" - at ")
    reason = reason.replace("Object contains u", "u").replace("Object missing", "missing")
    place = place.strip("`").removeprefix("$").removeprefix(".")
    return f"{place}: {reason}" if place else reason


def _check(found: PipelineFile, where: str) -> None:
    def refuse(place: str, reason: str) -> None:
        raise PipelineFileError(f"{where}: {place}", reason)

    if not _is_name(found.name.replace("-", "_")):
        refuse("name", f"{found.name!r} is not a name: use letters, digits, - and _")
    if not _span(found.every):
        refuse("every", f"{found.every!r} is not a time span such as 500ms, 10s or 5m")
    if not found.sink:
        refuse("sink", "there is no sink: add [[sink]]")
    if found.mode != "batch" and not found.checkpoint:
        refuse("checkpoint", f"mode {found.mode} needs a folder to remember its progress in")
    try:
        parse_options(found.source_options(found.group_of(0)), Use.BATCH if found.mode == "batch" else Use.STREAM)
    except OptionError as error:
        refuse(f"source.{error.option}", error.reason)
    except ConfigError as error:
        refuse("source", str(error))
    names = _check_steps(found, refuse)
    for number, sink in enumerate(found.sink):
        _check_sink(found, sink, f"sink[{number}]", names, refuse)
    sink_names = [found.sink_name(number) for number in range(len(found.sink))]
    if repeated := next((name for name in sink_names if sink_names.count(name) > 1), None):
        refuse("sink", f"two sinks are named {repeated}")


def _check_steps(found: PipelineFile, refuse: Any) -> set[str]:
    names: set[str] = set()
    for number, step in enumerate(found.step):
        place = f"step[{number}]"
        if bool(step.sql) == bool(step.python):
            refuse(place, "it needs either sql or python")
        if step.python and step.python.count(":") != 1:
            refuse(f"{place}.python", f"{step.python!r} is not module:function")
        if step.name and (not _is_name(step.name) or step.name == INPUT):
            refuse(f"{place}.name", f"{step.name!r} is not a name for a view")
        if step.name in names:
            refuse(f"{place}.name", f"there already is a step {step.name}")
        names |= {step.name} - {""}
    return names


def _check_sink(found: PipelineFile, sink: Sink, place: str, names: set[str], refuse: Any) -> None:
    if sink.name and not _is_name(sink.name.replace("-", "_")):
        refuse(f"{place}.name", f"{sink.name!r} is not a name: use letters, digits, - and _")
    if sink.kind not in KINDS:
        refuse(f"{place}.kind", f"{sink.kind!r} is not one of {', '.join(KINDS)}")
    if sink.from_ and sink.from_ not in names:
        refuse(f"{place}.from", f"there is no step named {sink.from_!r}")
    if sink.kind in FILES and not sink.path:
        refuse(f"{place}.path", "say which folder to write to")
    if sink.kind == TOPIC and not sink.topic:
        refuse(f"{place}.topic", "say which topic to write to")
    if sink.partition_by and sink.kind not in FILES:
        refuse(f"{place}.partition_by", f"a sink of kind {sink.kind} has no partitions")
    if sink.kind == TOPIC:
        _check_topic_options(found, sink, place, refuse)


def _check_topic_options(found: PipelineFile, sink: Sink, place: str, refuse: Any) -> None:
    is_batch = found.mode == "batch"
    own = {} if is_batch else {"checkpointLocation": found.checkpoint}
    try:
        parse_sink_options({**found.sink_options(sink), **own}, Use.BATCH if is_batch else Use.STREAM)
    except OptionError as error:
        refuse(f"{place}.options.{error.option}", error.reason)
