"""Writes the Grafana dashboard and the alert rules, from the table that declares the metrics.

python -m deploy.generate
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from release.monitoring.alerts import rules_text
from release.monitoring.dashboard import dashboard

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
