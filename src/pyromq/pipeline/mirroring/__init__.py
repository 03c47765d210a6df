"""Mirror: topics of one cluster kept in another, with the progress of groups translated; no Spark.

marks    where a copy comes from, in its properties; what else a copy keeps
packing  messages of one queue to send requests
target   a queue of the other cluster: its newest copy, and the copy of an offset
copying  one queue after the other cluster's, in order, each message once
groups   offsets of groups here, as offsets there
job      ``mirror()``: which queue goes where, rounds, lag

Owns: the mark MIRRORED_FROM. Callers: ``pyromq pipeline mirror``. Imports: ``core``, ``reading``, ``operate``.
"""
