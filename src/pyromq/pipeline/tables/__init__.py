"""Topics as tables without Spark: SQL by DuckDB, and Delta tables that have each message exactly once.

question    what a text of SQL reads, found in its syntax tree; what it may not do
sources     where rows come from: ranges of queues, stretches of a commit log, Parquet files
bounds      which offsets and times a condition leaves out, so that they are not read
scanning    a source as DuckDB sees it: columns and conditions in, record batches out
engine      a DuckDB without files, network and settings, for one reading
answer      ``sql()``, and the rows of its answer
delta       a Delta table of messages: offsets and rows in one commit
filling     ``fill_table()``: what a table lacks, in bounded batches
"""

from __future__ import annotations
