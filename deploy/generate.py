"""Writes the Grafana dashboard and the alert rules, from the table that declares the metrics.

python deploy/generate.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from pyromq.metrics.alerts import rules_text
from pyromq.metrics.dashboard import dashboard

FOLDER: Final = Path(__file__).parent


def files() -> dict[Path, str]:
    """What should be in them."""
    return {
        FOLDER / "grafana" / "pyromq.json": json.dumps(dashboard(), indent=1, ensure_ascii=False) + "\n",
        FOLDER / "prometheus" / "pyromq-rules.yml": rules_text(),
    }


if __name__ == "__main__":
    for path, text in files().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
