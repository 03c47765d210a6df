"""Users of the cluster: who there is, what they may do, and why something is refused."""

from __future__ import annotations

from typing import Any

from pyromq.console.views.users import ACTIONS, TEMPLATES, entry_of, new_secret, read_users, words_of
from pyromq.console.web.formatting import link
from pyromq.console.web.forms import about_field
from pyromq.console.web.pages import Nav, Pages
from pyromq.console.web.problems import or_problem
from pyromq.console.web.visit import BadRequestError, Drawn, Moved, Visit

pages = Pages()


@pages.page("/users", title="Users", nav=Nav("Operate", order=40, key="u"))
async def users(visit: Visit) -> Drawn:
    return Drawn("users.html", {"users": await read_users(visit.desk)})


@pages.page("/users/{user}", title="User")
async def user(visit: Visit) -> Drawn:
    """With the policies, and the decision that the query asks about."""
    name, query = visit.path["user"], visit.query
    found = await visit.desk.admin.access.user(name)
    every = await read_users(visit.desk)
    model: dict[str, Any] = {
        "user": next((each for each in every.users if each.name == (found.username or "")), None),
        "name": name,
        "policies": [each for each in every.policies if each.user == name],
        "actions": ACTIONS,
        "templates": TEMPLATES,
        "question": {key: query.get(key, "") for key in ("action", "resource", "ip")},
        "verdict": None,
        "mistake": "",
    }
    if query.get("resource"):
        ip = query.get("ip") or "127.0.0.1"
        asked = visit.desk.admin.access.explain(name, query.get("action", ""), query["resource"], ip=ip)
        model["verdict"], model["mistake"] = await or_problem(asked, None)
    return Drawn("user.html", model, title=name)


@pages.action("/users")
async def create(visit: Visit) -> Moved:
    """Its password is made here and shown once."""
    name, is_super = visit.form.get("name", "").strip(), visit.form.get("type") == "super"
    password = new_secret()
    with about_field("name"):
        await visit.desk.admin.access.create_user(name, password, is_super=is_super)
    more = "" if is_super else " It may do nothing yet: give it a role below."
    return Moved(
        link("users", name), said=f"User {name} was created.{more} Its password, shown this once:", secret=password
    )


@pages.action("/users/{user}/password")
async def renew(visit: Visit) -> Moved:
    name, password = visit.path["user"], new_secret()
    await visit.desk.admin.access.update_user(name, password=password)
    return Moved(link("users", name), said=f"The new password of {name}, shown this once:", secret=password)


@pages.action("/users/{user}/status")
async def switch(visit: Visit) -> Moved:
    name, wanted = visit.path["user"], visit.form.get("status", "")
    if wanted not in ("enable", "disable"):
        raise BadRequestError("a user is enabled or disabled")
    await visit.desk.admin.access.update_user(name, enabled=wanted == "enable")
    return Moved(
        link("users", name), said=f"User {name} is {'let in' if wanted == 'enable' else 'not let in'} from now on."
    )


@pages.action("/users/{user}/delete")
async def delete(visit: Visit) -> Moved:
    name = visit.path["user"]
    await visit.desk.admin.access.delete_user(name)
    return Moved("/users", said=f"User {name} and its policies are deleted.")


@pages.action("/users/{user}/template", again="/users/{user}")
async def apply(visit: Visit) -> Moved:
    name, form = visit.path["user"], visit.form
    entries = await visit.desk.admin.access.apply_template(
        name, form.get("template", ""), topics=words_of(form.get("topics", "")), groups=words_of(form.get("groups", ""))
    )
    return Moved(link("users", name), said=f"{name} has {len(entries)} entries of the role {form.get('template', '')}.")


@pages.action("/users/{user}/policy", again="/users/{user}")
async def allow(visit: Visit) -> Moved:
    name = visit.path["user"]
    with about_field("resource"):
        entry = entry_of(visit.form, visit.all_of("actions"))
    await visit.desk.admin.access.set_policy(name, [entry], default=visit.form.get("default") == "yes")
    return Moved(
        link("users", name), said=f"{name}: {entry.decision} {', '.join(entry.actions or ())} on {entry.resource}."
    )


@pages.action("/users/{user}/policy/delete")
async def forget(visit: Visit) -> Moved:
    name, resource = visit.path["user"], visit.form.get("resource", "")
    if not resource:
        raise BadRequestError("name the resource whose entry is to go")
    await visit.desk.admin.access.delete_policy(name, resource, default=visit.form.get("default") == "yes")
    return Moved(link("users", name), said=f"The entry of {name} for {resource} is deleted.")
