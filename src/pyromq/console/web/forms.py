"""Forms that come back: what was sent stays in its fields, and what is wrong stands beside the field.

An action that raises an MQError is answered with the page of its form again (``Pages.action``, ``again``), with status
and sentence of the error. ``FieldError`` says which field is meant; the macros of ``macros.html`` do the rest:

    with about_field("topic"):
        await save_topic(...)                      # InvalidNameError is shown beside the field "topic"
    settings = form_values(given, TopicSettings)    # a number that is none is shown beside its own field
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import msgspec

from pyromq.console.web.problems import Problem, problem_of
from pyromq.console.web.visit import BadRequestError, FieldError
from pyromq.errors import BodyError, ConfigError, LocalProtocolError, MQError, NotFoundError

T = TypeVar("T")
_PATH: Final = re.compile(r"^(?P<text>.*?) - at `\$\.(?P<field>\w+)[^`]*`$", re.DOTALL)


@contextmanager
def about_field(name: str) -> Iterator[None]:
    """What is refused in the block is refused because of this field. Raises FieldError."""
    try:
        yield
    except FieldError:
        raise
    except (ConfigError, LocalProtocolError, NotFoundError, BodyError) as error:
        raise FieldError(name, problem_of(error).detail, cause=error) from error


def form_values(given: Mapping[str, Any], kind: type[T]) -> T:
    """Fields of a form as a struct. Raises FieldError for the first that does not fit, BadRequestError."""
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        if (found := _PATH.match(str(error))) is not None:
            raise FieldError(found["field"], found["text"]) from error
        raise BadRequestError(str(error)) from error


@dataclass(frozen=True, slots=True)
class SentForm:
    """What was sent before, for the page that shows the form again; empty on a page that is opened."""

    fields: tuple[tuple[str, str], ...] = ()
    failure: MQError | None = None

    @property
    def problem(self) -> Problem | None:
        return None if self.failure is None else problem_of(self.failure)

    @property
    def field(self) -> str:
        """The field that is wrong; empty if it is the whole form, or nothing."""
        return self.failure.field if isinstance(self.failure, FieldError) else ""

    def error_of(self, name: str) -> str:
        return problem_of(self.failure).detail if self.failure is not None and self.field == name else ""

    def value(self, name: str, default: Any = "") -> Any:
        """What a field held; the default if no form was sent."""
        return next((value for key, value in self.fields if key == name), default)

    def is_ticked(self, name: str, value: str, default: bool = False) -> bool:
        """Whether a box was ticked: a form that was sent does not name the others."""
        return (name, value) in self.fields if self.fields else default
