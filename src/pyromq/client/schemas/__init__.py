"""Schemas of topics: looked up with the cluster or in a registry, kept, and renewed; for every face that has bodies.

Owns: what is known of the schema of a topic, and requests to registries. Callers: ``core``, ``operate``, ``pipeline``.
Imports: ``typed``.
"""
