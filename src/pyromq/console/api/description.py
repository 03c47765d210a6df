"""The description of the API itself."""

from __future__ import annotations

from typing import Any

from pyromq.console.web.api import Api, Call

functions = Api("description")


@functions.get("/api/openapi.json", summary="This description in OpenAPI 3.1")
async def openapi(call: Call) -> dict[str, Any]:
    """Types, paths, roles and errors of everything here."""
    return call.request.app.state.console.description  # type: ignore[no-any-return]
