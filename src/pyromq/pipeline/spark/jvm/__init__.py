"""The JVM lane: a small data source in Java that reads and writes what Python has planned.

    format("pyromq") ──▶ DefaultSource.java ──▶ plans by Python: offsets, ranges, groups, rights, checkpoints, markers
                                            └──▶ rows by the JVM: pulls and sends on sockets, columns as Spark asks

Owns: the Java sources, the jar that is compiled of them, the form of a plan between both languages.
Callers: ``spark``. Imports: ``reading``, ``sink``, ``core``; Java imports Spark and what Spark's own jars hold.
"""
