"""What a pipeline file takes from around it: ``${NAME}`` from the environment, ``${file:PATH}`` from a file.

    accessKey = "${SHOP_KEY}"    secretKey = "${file:/run/secrets/shop}"    nameserver = "${MQ:-127.0.0.1:9876}"

So secrets stay out of the file, and one file serves several places. SQL is left alone: Spark has ``${…}``, too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pyromq.pipeline.jobs.running.file_mistakes import FileMistakes

FILLED: Final = ("source", "sink", "spark", "checkpoint")
_reference = re.compile(r"\$\{(file:)?([^}:]+)(?::-([^}]*))?\}")


def filled_in(raw: Any, environment: Mapping[str, str], folder: Path, mistakes: FileMistakes) -> Any:
    """The decoded file with its references resolved; files are relative to ``folder``."""
    if not isinstance(raw, Mapping):
        return raw
    return {
        key: _filled(value, str(key), environment, folder, mistakes) if key in FILLED else value
        for key, value in raw.items()
    }


def _filled(value: Any, place: str, environment: Mapping[str, str], folder: Path, mistakes: FileMistakes) -> Any:
    match value:
        case str():
            return _reference.sub(lambda found: _text(found, place, environment, folder, mistakes), value)
        case dict():
            return {key: _filled(each, f"{place}.{key}", environment, folder, mistakes) for key, each in value.items()}
        case list():
            return [
                _filled(each, f"{place}[{number}]", environment, folder, mistakes) for number, each in enumerate(value)
            ]
        case _:
            return value


def _text(
    found: re.Match[str], place: str, environment: Mapping[str, str], folder: Path, mistakes: FileMistakes
) -> str:
    is_file, name, otherwise = found.groups()
    if is_file:
        try:
            return (folder / name).read_text(encoding="utf-8").rstrip("\n")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not text in UTF-8"
    else:
        value = environment.get(name, otherwise)
        if value is not None:
            return value
        reason = f"the environment has no {name}; ${{{name}:-…}} gives a default"
    if otherwise is not None:
        return otherwise
    mistakes.add(place, f"{found[0]}: {reason}")
    return found[0]
