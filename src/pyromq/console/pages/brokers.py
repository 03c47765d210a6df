"""Brokers: what they are doing, and their settings, some of which can be changed while they run."""

from __future__ import annotations

from pyromq.console.history.names import broker_number
from pyromq.console.views.brokers import in_words, require_broker
from pyromq.console.views.cluster import cluster_view
from pyromq.console.views.hot_settings import HOT, changes_of
from pyromq.console.views.replication import replication_view
from pyromq.console.views.replication_picture import narrow_replication_picture, replication_picture
from pyromq.console.views.trends import trend_chart
from pyromq.console.web.formatting import counted, link
from pyromq.console.web.forms import about_field
from pyromq.console.web.pages import Nav, Pages
from pyromq.console.web.visit import BadRequestError, Drawn, Moved, Visit

pages = Pages()


@pages.page("/brokers", title="Brokers", nav=Nav("Cluster", order=20, key="b"))
async def brokers(visit: Visit) -> Drawn:
    return Drawn("brokers.html", {"brokers": (await cluster_view(visit.desk)).brokers})


@pages.page("/replication", title="Replication", nav=Nav("Cluster", order=25, key="y", badge="away"))
async def replication(visit: Visit) -> Drawn:
    view = await replication_view(visit.desk)
    pictures = {"picture": replication_picture(view.copies), "narrow": narrow_replication_picture(view.copies)}
    return Drawn("replication.html", {"view": view, **pictures})


@pages.page("/brokers/{broker}", title="Broker")
async def broker(visit: Visit) -> Drawn:
    name = visit.path["broker"]
    await require_broker(visit.desk, name)
    told = await visit.desk.admin.brokers.runtime(name)
    master = f"{name}/0"
    rates = {"in": broker_number(master, "in"), "out": broker_number(master, "out")}
    free = {"free": broker_number(master, "free")}
    model = {
        "broker": name,
        "groups": in_words(told, visit.now_ms),
        "span": visit.span,
        "rates": trend_chart(visit.desk, visit.span, f"Messages a second of {name}", rates),
        "free": trend_chart(visit.desk, visit.span, f"Free disk of {name}", free, "bytes"),
    }
    return Drawn("broker.html", model, title=name)


@pages.page("/brokers/{broker}/settings", title="Settings")
async def settings(visit: Visit) -> Drawn:
    name = visit.path["broker"]
    await require_broker(visit.desk, name)
    config = await visit.desk.admin.brokers.config(name)
    needle = visit.query.get("q", "").strip().casefold()[:200]
    model = {
        "broker": name,
        "search": visit.query.get("q", ""),
        "hot": [each for key, each in sorted(HOT.items()) if key in config and needle in key.casefold()],
        "cold": {key: text for key, text in sorted(config.items()) if key not in HOT and needle in key.casefold()},
        "config": config,
    }
    return Drawn("broker_settings.html", model, title=f"Settings of {name}")


@pages.page("/brokers/{broker}/settings/{key}", title="Setting")
async def setting(visit: Visit) -> Drawn:
    name, key = visit.path["broker"], visit.path["key"]
    await require_broker(visit.desk, name)
    if key not in HOT:
        raise BadRequestError(f"{key[:80]} cannot be changed while a broker runs: change its file and restart it")
    config = await visit.desk.admin.brokers.config(name)
    return Drawn("broker_setting.html", {"broker": name, "setting": HOT[key], "value": config.get(key, "")}, title=key)


@pages.action("/brokers/{broker}/settings/preview", title="Preview", again="/brokers/{broker}/settings/{key}")
async def preview(visit: Visit) -> Drawn:
    """What would change; nothing does yet."""
    name, key = visit.path["broker"], visit.form.get("key", "")
    await require_broker(visit.desk, name)
    config = await visit.desk.admin.brokers.config(name)
    with about_field("value"):
        changes = changes_of(config, {key: visit.form.get("value", "")})
    model = {"broker": name, "changes": changes, "hot": HOT}
    return Drawn("broker_preview.html", model, title=f"Change {counted(len(changes), 'setting')} of {name}?")


@pages.action("/brokers/{broker}/settings/change")
async def change(visit: Visit) -> Moved:
    """Only if the value is still the one that the preview showed."""
    name, key = visit.path["broker"], visit.form.get("key", "")
    await require_broker(visit.desk, name)
    config = await visit.desk.admin.brokers.config(name)
    (wanted,) = changes_of(config, {key: visit.form.get("value", "")})
    if wanted.before != visit.form.get("before", wanted.before):
        raise BadRequestError(f"{key} became {wanted.before} meanwhile: look at it again before you change it")
    await visit.desk.admin.brokers.update_config(name, {key: wanted.after})
    after = (await visit.desk.admin.brokers.config(name)).get(key, "")
    path = link("brokers", name, "settings")
    if after != wanted.after:
        return Moved(path, said=f"{name} took the change, and tells {key} = {after} now.", kind="warning")
    text = f"{key} of {name} is {after} now, until the broker is restarted: its file stays what it is."
    return Moved(path, said=text)
