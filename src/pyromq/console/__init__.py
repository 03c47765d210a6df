"""The web console: pages for people and an HTTP API for programs, one process, a client of the cluster like any other.

    pyromq console -n 10.0.0.1:9876          console=http://127.0.0.1:8082

A page is a module in ``pages``; every module there is found by itself. Ten lines make one:

    pages = Pages()

    @pages.page("/lags", title="Lags", nav=Nav("Consume", order=25, key="l"))
    async def lags(visit: Visit) -> Drawn:
        return Drawn("lags.html", {"lags": await visit.desk.admin.groups.lag(visit.query.get("group", ""))})

    @pages.action("/lags/{group}/skip")                       # POST: an operator's, with a CSRF token, by construction
    async def skip(visit: Visit) -> Moved:
        await visit.desk.admin.offsets.reset(visit.path["group"], visit.form["topic"])
        return Moved("/lags", said="The group goes on with new messages.")

``templates/lags.html`` extends ``base.html`` and imports ``macros.html``. A function of the API is a module of ``api``,
found likewise, and its types are its description in ``/api/openapi.json``:

    functions = Api("groups")

    @functions.get("/groups/{group}/lag", summary="How far a group is")
    async def lag(call: Call, path: GroupPath, query: LagQuery) -> Lag: ...

``Desk`` is what both get: the admin client, values kept for a moment, whoever is signed in comes with the visit. Rooms:
``web`` knows HTTP and nothing of messages, ``auth`` who may do what, ``pages`` and ``api`` the rest.
"""
