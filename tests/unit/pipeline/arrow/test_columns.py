"""Columns of the source: their types are what Spark compares with."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from pyromq.pipeline.arrow.columns import ARROW_TYPES, COLUMNS, check_schema, spark_schema
from tests.unit.pipeline.structs import struct


@pytest.mark.parametrize("as_map", [True, False])
def test_our_types_are_those_that_spark_compares_with(as_map: bool) -> None:
    found = to_arrow_schema(struct(spark_schema(properties_as_map=as_map)), timezone="UTC")
    check_schema(found)
    assert found.names == list(COLUMNS)
    assert found.field("properties").type == (ARROW_TYPES["properties"] if as_map else pa.string())
