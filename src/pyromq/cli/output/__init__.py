"""What commands write and ask: tables, JSON and CSV, times as people read them, questions and progress.

The lowest room of ``cli``: it imports no command, and nothing of clients or servers.
"""
