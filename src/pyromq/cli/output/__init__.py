"""What commands show and ask: tables, JSON and CSV from the same rows; times; prompts; shared options.

Owns: the looks of the command line.
Callers: the other rooms of ``cli``. Imports: no other room.
"""
