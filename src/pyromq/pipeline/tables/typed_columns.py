"""Columns that the schema of a topic adds to its table: the fields of its bodies, and why one could not be read.

A field that has the name of a column of the source stays in ``body``; ``_error`` is null where a body could be decoded.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from pyromq.pipeline.core.option_texts import PayloadMode
from pyromq.pipeline.payload.arrow_types import arrow_type
from pyromq.pipeline.payload.typed_rows import ERROR, TypedRows, is_taken
from pyromq.pipeline.tables.bounds import SCHEMA
from pyromq.typed.schemas.fields import Fields
from pyromq.typed.schemas.topic_bodies import TopicBodies


@dataclass(frozen=True)
class TypedColumns:
    """What a schema adds to the columns of a topic."""

    bodies: TopicBodies

    @cached_property
    def fields(self) -> Fields:
        """Those that can be columns."""
        return tuple(each for each in self.bodies.schema.fields if not is_taken(each.name))

    @cached_property
    def schema(self) -> pa.Schema:
        """All columns of the table."""
        own = [pa.field(each.name, arrow_type(each.type)) for each in self.fields]
        return pa.schema([*SCHEMA, *own, pa.field(ERROR, pa.string())])

    def rows_with(self, columns: pa.Schema) -> TypedRows | None:
        """How these columns come about; None where none of them is of the schema, and nothing is decoded."""
        names = set(columns.names)
        if names <= set(SCHEMA.names):
            return None
        fields = self.fields if ERROR in names else tuple(each for each in self.fields if each.name in names)
        return TypedRows(columns, self.bodies.payload, PayloadMode.PERMISSIVE, self.bodies.schema, fields)
