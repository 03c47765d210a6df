"""Edits of a dead letter as a form has them, and what they change. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Final

import msgspec

from pyromq.aio import ReceivedMessage
from pyromq.console.views.messages import pretty_json
from pyromq.console.web.visit import BadRequestError
from pyromq.operate.reading.message_rows import body_of
from pyromq.operate.resend.edits import EDITED_BYTES_MAX, LetterEdit, own_properties
from pyromq.operate.resend.outgoing import application_properties

_CONTEXT_LINES: Final = 3
_LINE_END: Final = re.compile(r"\r\n|\r|\n")


class EditForm(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of the form; ``properties`` are lines ``name=value``."""

    body: str
    tags: str = ""
    keys: str = ""
    properties: str = ""


class DiffLine(msgspec.Struct, frozen=True):
    """A line of a comparison: ``+`` only after the edit, ``-`` only before, blank in both, ``@`` a heading."""

    mark: str
    text: str


def form_of(message: ReceivedMessage) -> EditForm | None:
    """What can be edited of a letter; None where its body is no text, or too much of it.

    None, too, where a form cannot hold it: what comes back unchanged must be what the letter has, so a body with line
    ends of several kinds, or a property with several lines, is not edited here.
    """
    body, problem = body_of(message)
    if problem or len(body) > EDITED_BYTES_MAX:
        return None
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return None
    own = own_properties(dict(application_properties(message.properties)))
    lines = "\n".join(f"{name}={value}" for name, value in sorted(own.items()))
    form = EditForm(body=text, tags=message.tags, keys=" ".join(message.keys), properties=lines)
    try:
        unchanged = edit_of(form_in(_as_browsers_send(form), form))
    except BadRequestError:
        return None
    has = LetterEdit(body=body, tags=message.tags, keys=tuple(message.keys), properties=own)
    return form if unchanged == has else None


def form_in(given: Mapping[str, str], before: EditForm) -> EditForm:
    """What a browser sent; it ends lines with CR and LF, whatever they ended with before: a body keeps its own."""
    fields = {name: given.get(name, "").replace("\r\n", "\n") for name in EditForm.__struct_fields__}
    if "\r\n" in before.body:
        fields["body"] = fields["body"].replace("\n", "\r\n")
    return EditForm(**fields)


def _as_browsers_send(form: EditForm) -> dict[str, str]:
    return {name: _LINE_END.sub("\r\n", getattr(form, name)) for name in EditForm.__struct_fields__}


def edit_of(form: EditForm) -> LetterEdit:
    """Return what a form asks for. Raises BadRequestError."""
    properties = {}
    for line in filter(None, map(str.strip, form.properties.splitlines())):
        name, equals, value = line.partition("=")
        if not equals or not name.strip():
            raise BadRequestError(f"a property is a line name=value, not {line[:80]!r}")
        properties[name.strip()] = value.strip()
    return LetterEdit(
        body=form.body.encode(), tags=form.tags.strip(), keys=tuple(form.keys.split()), properties=properties
    )


def changes(before: EditForm, after: EditForm) -> list[DiffLine]:
    """Return what an edit changes, line by line; bodies that are JSON are compared as it reads best. Empty: nothing."""
    found: list[DiffLine] = []
    pairs = [
        ("body", _lines(before.body), _lines(after.body)),
        ("tag", [before.tags] if before.tags else [], [after.tags.strip()] if after.tags.strip() else []),
        ("keys", before.keys.split(), after.keys.split()),
        (
            "properties",
            before.properties.splitlines(),
            sorted(filter(None, map(str.strip, after.properties.splitlines()))),
        ),
    ]
    for name, old, new in pairs:
        lines = list(difflib.unified_diff(old, new, n=_CONTEXT_LINES, lineterm=""))[2:]
        if lines:
            found.append(DiffLine("@", name))
            found += [DiffLine(line[0], line[1:]) for line in lines if not line.startswith("@@")]
    if not found and before.body != after.body:
        found = [DiffLine("@", "body"), DiffLine("-", before.body), DiffLine("+", after.body)]
    return found


def _lines(body: str) -> list[str]:
    return (pretty_json(body.encode()) or body).splitlines()
