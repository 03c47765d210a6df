"""Programs of users for mypy: ``good.py`` is accepted and runs, every marked line of ``bad.py`` is refused by both."""
