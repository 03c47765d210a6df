"""Options of a command that belong together, declared as the fields of a record; several commands may share a record.

@dataclass(frozen=True, kw_only=True)
class SparkOptions:
    master: Annotated[str, Option(help="Spark's master.")] = "local[*]"

@app.command()
def archive(topics: TopicsArgument, spark: SparkOptions) -> None:        # archive orders --master …
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from inspect import Parameter, signature
from typing import Any, TypeVar, get_type_hints

T = TypeVar("T")


def unfolded(command: Callable[..., T]) -> Callable[..., T]:
    """The command as ``declared`` sees it: the fields of a record stand in its place, whatever its default.

    No field may share its name with another parameter, or with a field of another record.
    """
    own = signature(command, eval_str=True)
    records: dict[str, Any] = {
        name: each.annotation for name, each in own.parameters.items() if is_dataclass(each.annotation)
    }
    if not records:
        return command
    parameters: list[Parameter] = []
    for name, each in own.parameters.items():
        parameters += _fields(records[name]) if name in records else [each.replace(kind=Parameter.KEYWORD_ONLY)]

    @wraps(command)
    def called(**given: Any) -> T:
        built = {
            name: record(**{field.name: given.pop(field.name) for field in fields(record)})
            for name, record in records.items()
        }
        return command(**given, **built)

    called.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    return called


def _fields(record: Any) -> list[Parameter]:
    hints = get_type_hints(record, include_extras=True)
    defaults = {field.name: Parameter.empty if field.default is MISSING else field.default for field in fields(record)}
    return [
        Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=hints[name])
        for name, default in defaults.items()
    ]
