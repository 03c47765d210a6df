"""A Django project of one model, set up once for a process."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def set_up(**database: Any) -> Any:
    """The module ``django.db`` of a project whose database this is; the second call changes the database alone."""
    import django
    from django.conf import settings
    from django.db import connections

    named = {"default": {"CONN_MAX_AGE": 0, **database}}
    if not settings.configured:
        settings.configure(
            DATABASES=named, INSTALLED_APPS=[], USE_TZ=True, DEFAULT_AUTO_FIELD="django.db.models.BigAutoField"
        )
        django.setup()
    else:
        connections.close_all()
        settings.DATABASES = named
        connections._settings = connections.settings = connections.configure_settings(named)
        del connections["default"]
    from django import db

    return db


def sqlite(path: Path) -> Any:
    return set_up(ENGINE="django.db.backends.sqlite3", NAME=str(path))
