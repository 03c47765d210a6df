"""One dead letter: why it failed, what it was, and sending it again as it is or edited."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from pyromq.aio import ReceivedMessage
from pyromq.console.views import letters as view
from pyromq.console.views.letter_edits import changes, edit_of, form_in, form_of
from pyromq.console.views.messages import BADGES, body_forms, view_of
from pyromq.console.web.formatting import link
from pyromq.console.web.pages import Pages
from pyromq.console.web.problems import or_problem
from pyromq.console.web.visit import BadRequestError, Drawn, Moved, Visit
from pyromq.errors import MQError
from pyromq.operate.explaining.explanation import Explanation
from pyromq.operate.explaining.timeline import timeline_of
from pyromq.operate.jobs.outcomes import Outcome
from pyromq.operate.jobs.specs import NewJob, Redrive
from pyromq.operate.letter_filter import DeadLetter, LetterFilter
from pyromq.operate.reading.message_rows import body_of
from pyromq.operate.reading.typed_views import decoded_body
from pyromq.operate.resend.edits import EDITED_BYTES_MAX

pages = Pages()

_WAIT_S: Final = 3.0  # for a job of one letter; then its own page is shown
_NOT_HERE: Final = (
    f"only bodies that are text of at most {EDITED_BYTES_MAX} bytes can be edited here, with one kind of line ends "
    "and properties of one line"
)


async def _found(visit: Visit) -> tuple[DeadLetter, ReceivedMessage]:
    """The letter that the address names. Raises NotFoundError."""
    letter = await visit.desk.admin.dead_letters.get(visit.path["group"], visit.path["letter"])
    return letter, await visit.desk.admin.messages.by_offset_id(letter.offset_message_id)


@pages.page("/dead-letters/{group}/{letter}", title="Dead letter")
async def letter(visit: Visit) -> Drawn:
    found, message = await _found(visit)
    explained, problem = await _explained(visit, found)
    stories = [each for each in explained.groups if each.group == found.group] if explained else []
    body, body_problem = body_of(message)
    model: dict[str, Any] = {
        "group": found.group,
        "letter": found,
        "failure": found.failure,
        "view": (shown := view_of(message)),
        "row": shown,
        "forms": body_forms(body, await decoded_body(visit.desk.admin.client, message.topic, message)),
        "body_problem": body_problem,
        "story": stories[0] if stories else None,
        "problem": problem,
        "timeline": [each for each in timeline_of(explained) if each.group in ("", found.group)] if explained else [],
        "badges": BADGES,
        "can_edit": form_of(message) is not None,
        "commands": Redrive.chosen(found.group, LetterFilter(letters=(found.offset_message_id,))).commands(),
    }
    return Drawn("letter.html", model, title=f"Dead letter {found.message_id[:40]}")


async def _explained(visit: Visit, found: DeadLetter) -> tuple[Explanation | None, str]:
    if not found.topic:
        return None, "The letter does not say which topic it was sent to."
    known, problem = await or_problem(visit.desk.admin.messages.explain(found.topic, found.message_id), None)
    return known, f"The original is not there any more: {problem}" if problem else ""


@pages.action("/dead-letters/{group}/{letter}/redrive")
async def redrive_letter(visit: Visit) -> Moved:
    """A job of one item; when it is over soon, the page of the letter says what became of it."""
    group, place = visit.path["group"], visit.path["letter"]
    spec = Redrive.chosen(group, LetterFilter(letters=(place,)), only_group=bool(visit.form.get("only_group")))
    return await _job_of_one(visit, spec, "letter", "sent again")


async def _job_of_one(visit: Visit, spec: Redrive, what: str, done_text: str) -> Moved:
    """Start the job and wait for a moment: then the page of the letter says what happened, or that of the job."""
    group, place = spec.group, spec.letters[0]
    record = visit.desk.jobs.start(NewJob(spec=spec), by=visit.by)
    view.forget(visit.desk, group)
    waiting = asyncio.ensure_future(visit.desk.jobs.wait(record.id))
    done, _ = await asyncio.wait([waiting], timeout=_WAIT_S)
    if not done:
        return Moved(link("jobs", record.id))
    results = await visit.desk.jobs.page_of_results(record.id, skip=0, count_max=1)
    if not results:
        return Moved(link("jobs", record.id))
    result = results[0]
    if result.outcome is Outcome.UNKNOWN:  # the job's page has the words, and a way to go on
        return Moved(link("jobs", record.id))
    is_sent = result.outcome is Outcome.CONFIRMED
    said = f"The {what} was {done_text}." if is_sent else f"The {what} was not sent: {result.text}."
    return Moved(link("dead-letters", group, place), said=said, kind="good" if is_sent else "warning")


# --- edited --------------------------------------------------------------------------------------------------------


@pages.page("/dead-letters/{group}/{letter}/edit", title="Edit and send")
async def edit(visit: Visit) -> Drawn:
    found, message = await _found(visit)
    form = form_of(message)
    if form is None:
        raise BadRequestError(_NOT_HERE)
    model = {"group": found.group, "letter": found, "form": form, "changes": None, "problem": "", "only_group": False}
    return Drawn("letter_edit.html", model, title=f"Edit {found.message_id[:40]}")


@pages.action("/dead-letters/{group}/{letter}/edit", title="Edit and send")
async def send_edited(visit: Visit) -> Drawn | Moved:
    """First what would change; with ``sure`` a job of one item sends the letter that way."""
    found, message = await _found(visit)
    before, problem = form_of(message), ""
    if before is None:
        raise BadRequestError(_NOT_HERE)
    after = form_in(visit.form, before)
    only_group, changed = bool(visit.form.get("only_group")), changes(before, after)
    try:
        which = LetterFilter(letters=(found.offset_message_id,))
        spec = Redrive.chosen(found.group, which, only_group=only_group, edit=edit_of(after))
        spec.check()
        if visit.form.get("sure") and changed:
            return await _job_of_one(visit, spec, "edited message", "sent")
        problem = "" if changed else "Nothing is changed: redrive the letter as it is, or edit something."
    except MQError as error:
        problem, changed = str(error), []
    model = {
        "group": found.group,
        "letter": found,
        "form": after,
        "changes": changed,
        "problem": problem,
        "only_group": only_group,
    }
    return Drawn("letter_edit.html", model, title=f"Edit {found.message_id[:40]}", status=422 if problem else 200)
