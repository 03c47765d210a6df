"""The JVM lane: a small data source in Java that reads what the Python source has planned.

    format("pyromq") ──▶ DefaultSource.java ──▶ plans by Python: offsets, ranges, groups, rights, checkpoints
                                            └──▶ rows by the JVM: pulls on sockets, columns as Spark asks for them

Owns: the Java sources, the jar that is compiled of them, the form of a plan between both languages.
Callers: ``spark``. Imports: ``reading``, ``core``; Java imports Spark and what Spark's own jars hold.
"""
