"""The description of the API in OpenAPI 3.1, made of its declarations."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any, Final

import msgspec

from pyromq.console.web.api import ApiFunction
from pyromq.console.web.problems import STATUSES, Problem

_REFERENCE: Final = "#/components/schemas/{name}"
_PROBLEMS: Final = {400: "What came does not fit its types", 401: "Not signed in", 403: "Not allowed"}


def description_of(functions: Sequence[ApiFunction]) -> dict[str, Any]:
    types = [Problem, *(kind for each in functions for kind in (*each.parts.values(), each.returns))]
    distinct = [kind for number, kind in enumerate(types) if _is_described(kind) and kind not in types[:number]]
    schemas, components = msgspec.json.schema_components(distinct, ref_template=_REFERENCE)
    found = dict(zip(map(_key, distinct), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for each in functions:
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(each, found, components)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "PyroMQ console",
            "version": version("pyromq"),
            "description": "A RocketMQ cluster over HTTP. Errors are application/problem+json (RFC 9457).",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
            },
        },
        "security": [{"token": []}],
    }


def _operation(function: ApiFunction, schemas: dict[str, Any], components: dict[str, Any]) -> dict[str, Any]:
    parameters = [
        *_parameters("path", function.parts.get("path"), schemas, components),
        *_parameters("query", function.parts.get("query"), schemas, components),
    ]
    operation: dict[str, Any] = {
        "operationId": function.name,
        "tags": [function.tag],
        "summary": function.summary,
        "description": (function.handler.__doc__ or "").strip() or function.summary,
        "x-role": function.role.value,
        "parameters": parameters,
        "responses": _responses(function, schemas),
    }
    if (body := function.parts.get("body")) is not None:
        content = {"application/json": {"schema": schemas[_key(body)]}}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _responses(function: ApiFunction, schemas: dict[str, Any]) -> dict[str, Any]:
    done: dict[str, Any] = {"description": "Done"}
    if function.is_stream:
        done["content"] = {"text/event-stream": {"schema": {"type": "string"}}}
    elif function.returns is not type(None):
        done["content"] = {"application/json": {"schema": schemas[_key(function.returns)]}}
    problem = {"application/problem+json": {"schema": schemas[_key(Problem)]}}
    refused = {
        str(status): {"description": _PROBLEMS.get(status, "See the detail"), "content": problem} for status in STATUSES
    }
    return {str(function.status): done, **refused}


def _parameters(place: str, kind: Any, schemas: dict[str, Any], components: dict[str, Any]) -> list[dict[str, Any]]:
    if kind is None:
        return []
    schema = schemas[_key(kind)]
    if "$ref" in schema:
        schema = components[schema["$ref"].rpartition("/")[2]]
    required = set(schema.get("required", ()))
    return [
        {
            "name": name,
            "in": place,
            "required": place == "path" or name in required,
            "description": each.get("description", ""),
            "schema": each,
        }
        for name, each in schema.get("properties", {}).items()
    ]


def _is_described(kind: Any) -> bool:
    from pyromq.console.web.streams import Events

    return kind is not type(None) and kind is not Events


def _key(kind: Any) -> str:
    return repr(kind)
