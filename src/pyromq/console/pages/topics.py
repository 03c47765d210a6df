"""The list of topics, and making new ones."""

from __future__ import annotations

from pyromq.console.views.topic import MESSAGE_TYPES, QUEUES_DEFAULT, QUEUES_MAX, TopicSettings, save_topic
from pyromq.console.views.topics import SORTS, topic_list
from pyromq.console.web.formatting import link
from pyromq.console.web.forms import about_field, form_values
from pyromq.console.web.pages import Nav, Pages
from pyromq.console.web.tables import TableQuery
from pyromq.console.web.visit import Drawn, Moved, Visit
from pyromq.errors import ConfigError
from pyromq.model.system_names import TopicKind

pages = Pages()


@pages.page("/topics", title="Topics", nav=Nav("Messages", order=10, key="t"))
async def topics(visit: Visit) -> Drawn:
    wanted = visit.query.get("kind", "")
    kind = wanted if wanted in ("", "all", *TopicKind) else ""
    query = TableQuery.of(visit.query, sorts=SORTS, kept=("kind",))
    found = await topic_list(visit.desk, query, kind, within_ms=visit.desk.settings.first_paint_ms)
    page, counts = found.page, found.kinds
    users = sum(count for name, count in counts.items() if TopicKind(name).is_users)
    model = {
        "page": page,
        "pending": found.pending,
        "problems": found.problems,
        "kind": kind,
        "kinds": [("", "applications", users), *((each, each, counts[each]) for each in counts)],
        "total": sum(counts.values()),
    }
    return Drawn("topics.html", model)


@pages.page("/topics/new", title="New topic")
async def new(visit: Visit) -> Drawn:
    names = sorted((await visit.desk.cluster()).broker_addr_table)
    brokers = [("", "all masters"), *((name, name) for name in names)]
    return Drawn("topic_new.html", {"brokers": brokers, **form_model(TopicSettings()), "name": ""})


@pages.action("/topics/new", title="New topic")
async def create(visit: Visit) -> Moved:
    name = visit.form.get("topic", "").strip()
    settings = settings_from(visit)
    with about_field("topic"):
        if name in (await visit.desk.admin.topics.names()):
            raise ConfigError(f"there is a topic {name} already: change it on its own page")
        await save_topic(visit.desk, name, settings, broker=visit.form.get("broker", ""))
    return Moved(link("topics", name), said=f"The topic {name} exists now.")


def form_model(settings: TopicSettings) -> dict[str, object]:
    return {
        "settings": settings,
        "defaults": TopicSettings(),
        "message_types": [(each, each.lower() or "not said") for each in MESSAGE_TYPES],
        "queues_max": QUEUES_MAX,
        "queues_default": QUEUES_DEFAULT,
    }


def settings_from(visit: Visit) -> TopicSettings:
    """What the form of a topic holds. Raises FieldError."""
    form = visit.form
    numbers = ("read_queues", "write_queues", "message_type")
    given: dict[str, object] = {name: form[name] for name in numbers if form.get(name)}
    boxes = {name: name in form for name in ("readable", "writable", "ordered")}
    return form_values({**given, **boxes}, TopicSettings)
