"""The command ``pyromq``: nouns and verbs, servers, jobs; errors become exit codes in ``main``.

    output ◀ connection, tls ◀ nouns, servers, pipeline ◀ main

Owns: nothing but words and tables: every command is a client of something else. Callers: none.
"""
