"""Schemas of topics: those that a cluster keeps (``admin.schemas``), and registries that speak Confluent's API.

registry = SchemaRegistry("http://10.0.0.9:8081")
registry.register("orders-value", schema)
Producer("10.0.0.1:9876", group="shop", schemas="registry:http://10.0.0.9:8081")
"""

from __future__ import annotations

from pyromq.client.schemas.registry import RegisteredSchema, RegistryError, SchemaReference, SchemaRegistry
from pyromq.client.schemas.topic_schemas import TopicSchema
from pyromq.errors import SchemaMismatchError
from pyromq.typed.schemas.compatibility import Compatibility

__all__ = [
    "Compatibility",
    "RegisteredSchema",
    "RegistryError",
    "SchemaMismatchError",
    "SchemaReference",
    "SchemaRegistry",
    "TopicSchema",
]
