"""Schemas of bodies: fields and their types in SQL's words, from whatever form a schema is given in.

    DDL, JSON Schema, Avro, classes ──▶ SchemaField(name, FieldType, required)

Owns: the forms in which a schema is given. Callers: ``pipeline.payload``. Pure, but for ``given``, which reads a schema
that lies in a file.
"""
