"""Commands about one thing of a cluster: ``topic``, ``group``, ``message``, ``dlq``, ``delay``, ``tx``, ``store`` …

Owns: one module for each noun, with its verbs and tables.
Callers: ``main``. Imports: ``connection``, ``output``.
"""
