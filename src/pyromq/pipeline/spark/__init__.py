"""Spark's side: the data source, the session, the listener that tells groups of progress, Java.

Owns: everything with Spark's own method names.
Callers: ``consuming``, ``jobs``, users. Imports: ``sink``, ``store_files``, ``reading``, ``arrow``, ``core``.
"""
