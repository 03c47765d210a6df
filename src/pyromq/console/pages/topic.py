"""One topic: consumers, producers, configuration, sending, deleting."""

from __future__ import annotations

import shlex
from typing import Final

import msgspec

from pyromq.console.pages.topics import form_model, settings_from
from pyromq.console.views.sending import COUNT_MAX, NewMessage, SendReport, send
from pyromq.console.views.topic import (
    TopicSettings,
    affected_by_deletion,
    delete_topic,
    producer_views,
    save_topic,
    topic_view,
)
from pyromq.console.web.commands import command_line
from pyromq.console.web.formatting import link
from pyromq.console.web.forms import about_field, form_values
from pyromq.console.web.pages import Pages
from pyromq.console.web.problems import or_problem
from pyromq.console.web.visit import BadRequestError, Drawn, FieldError, Moved, Visit
from pyromq.errors import ConfigError
from pyromq.model.times import span_ms

pages = Pages()

_PRODUCERS_MAX: Final = 200
_SHOWN_CHARACTERS_MAX: Final = 500  # of a body in a command line
_SPANS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


@pages.page("/topics/{topic}/clients", title="Topic")
async def clients(visit: Visit) -> Drawn:
    name = visit.path["topic"]
    view = await topic_view(visit.desk, name)
    producers, problem = await or_problem(producer_views(visit.desk), [])  # unknown to brokers before 4.9.3
    senders, senders_problem = await or_problem(visit.desk.admin.contents.senders(name), [])
    sending = {sender.client_id for sender in senders}
    others = [each for each in producers if each.client_id not in sending]
    model = {
        "topic": view,
        "senders": senders,
        "senders_problem": senders_problem,
        "producers": others[:_PRODUCERS_MAX],
        "count": len(others),
        "problem": f"This cluster does not tell its producers: {problem}" if problem else "",
    }
    return Drawn("topic_clients.html", {**model, "tab": "clients"}, title=name)


@pages.page("/topics/{topic}/configuration", title="Topic")
async def configuration(visit: Visit) -> Drawn:
    name = visit.path["topic"]
    view = await topic_view(visit.desk, name)
    shown = next(iter(view.settings.values()), TopicSettings())
    differing = len(set(view.settings.values())) > 1
    model = {"topic": view, "tab": "configuration", "differing": differing, **form_model(shown)}
    return Drawn("topic_configuration.html", model, title=name)


@pages.action("/topics/{topic}/configuration", title="Topic")
async def configure(visit: Visit) -> Moved:
    name = visit.path["topic"]
    await topic_view(visit.desk, name)  # a topic that is gone is not made again by its form
    settings = TopicSettings() if "restore" in visit.form else settings_from(visit)
    await save_topic(visit.desk, name, settings)
    done = "has its default configuration again" if "restore" in visit.form else "is configured as you said"
    return Moved(link("topics", name, "configuration"), said=f"The topic {name} {done}.")


# --- sending ---


@pages.page("/topics/{topic}/send", title="Send")
async def send_form(visit: Visit) -> Drawn:
    view = await topic_view(visit.desk, visit.path["topic"])
    line = command_line("send", visit.path["topic"], "BODY", nameservers=visit.desk.settings.nameservers)
    return _send_page(visit, view, {}, None, line)


@pages.action("/topics/{topic}/send", title="Send")
async def send_messages(visit: Visit) -> Drawn:
    """Show the form again, with what became of each message."""
    name = visit.path["topic"]
    new = message_from(visit.form)
    report = await send(visit.desk, name, new)
    return _send_page(visit, await topic_view(visit.desk, name), visit.form, report, _send_line(visit, name, new))


def _send_line(visit: Visit, topic: str, new: NewMessage) -> str:
    """The send as a command, without a long body; what ``pyromq send`` has no option for is sent through the API."""
    if new.body and len(new.body) > _SHOWN_CHARACTERS_MAX:
        new = msgspec.structs.replace(new, body="BODY")
    if msgspec.structs.replace(new, body=None, tags="", keys=[]) == NewMessage():
        given = ("--tags", new.tags) if new.tags else ()
        keys = ("--keys", " ".join(new.keys)) if new.keys else ()
        words = ("send", topic, new.body, *given, *keys)
        return command_line(*words, nameservers=visit.desk.settings.nameservers)
    address = f"{visit.request.base_url}api/v1{link('topics', topic, 'messages')}"
    token = "Authorization: Bearer $PYROMQ_CONSOLE_TOKEN"
    body = msgspec.json.encode(new).decode()
    return f'curl -H "{token}" -H "Content-Type: application/json" -d {shlex.quote(body)} {shlex.quote(address)}'


def _send_page(visit: Visit, view: object, form: dict[str, str], report: SendReport | None, line: str) -> Drawn:
    model = {"topic": view, "tab": "send", "form": form, "report": report, "count_max": COUNT_MAX, "line": line}
    return Drawn("topic_send.html", model, title=visit.path["topic"])


def message_from(form: dict[str, str]) -> NewMessage:
    """What the form to send holds. Raises FieldError."""
    properties = {}
    for line in form.get("properties", "").splitlines():
        if line.strip():
            key, equals, value = line.partition("=")
            if not equals or not key.strip():
                raise FieldError("properties", f"properties are lines of NAME=VALUE, not {line[:100]!r}")
            properties[key.strip()] = value.strip()
    delay = form.get("delay", "").strip()
    given = {
        "body": form.get("body", "").replace("\r\n", "\n"),
        "tags": form.get("tags", "").strip(),
        "keys": form.get("keys", "").split(),
        "properties": properties,
        "order_key": form.get("order_key", "").strip(),
        "priority": form.get("priority", "").strip() or None,
        "delay_ms": _delay(delay),
        "count": form.get("count") or "1",
    }
    return form_values(given, NewMessage)


def _delay(text: str) -> int:
    with about_field("delay"):
        return delay_ms(text) if text else 0


def delay_ms(text: str) -> int:
    """``90``, ``90s``, ``5 min``, ``2h``; a bare number is seconds. Raises BadRequestError."""
    number = text.rstrip("abcdefghijklmnopqrstuvwxyz ")
    unit = text[len(number) :].strip() or "s"
    if unit not in _SPANS:
        raise BadRequestError(f"a delay is a number with ms, s, min, h or d, not {text[:40]!r}")
    try:
        return span_ms("delay", float(number) * _SPANS[unit] / 1000)
    except (ValueError, ConfigError) as error:
        raise BadRequestError(f"a delay is a number with ms, s, min, h or d, not {text[:40]!r}") from error


# --- deleting ---


@pages.page("/topics/{topic}/delete", title="Delete")
async def delete_form(visit: Visit) -> Drawn:
    affected = await affected_by_deletion(visit.desk, visit.path["topic"])
    return Drawn("topic_delete.html", {"affected": affected}, title=f"Delete {affected.topic}")


@pages.action("/topics/{topic}/delete")
async def delete(visit: Visit) -> Moved:
    """Asks for the name again: the page says what is lost."""
    name = visit.path["topic"]
    if visit.form.get("name", "") != name:
        raise FieldError("name", f"nothing was deleted: write the name of the topic, {name}, to say that you mean it")
    await delete_topic(visit.desk, name)
    return Moved("/topics", said=f"The topic {name} was deleted, with its messages.")
