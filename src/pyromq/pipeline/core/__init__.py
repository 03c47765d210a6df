"""The ground floor of the pipeline: options, offsets, places, connections of a worker, retry windows, errors.

Owns: what users may say about a read or a write, parsed and checked; clients of a worker process.
Callers: every room of the pipeline. Imports: no other room, never Spark.
"""
