"""Hooks that hatchling runs when it builds pyromq: the page for package indexes, and the bill of materials (PEP 770).

Runs inside isolated builds, of a clone and of an sdist: the standard library and hatchling are all it may import.
"""

from __future__ import annotations

import json
import re
import tempfile
import tomllib
import uuid
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

HOME_FILE = "release/home.txt"
_NAMESPACE = uuid.UUID(
    "5cf0ac2e-9f0c-5c84-b6a5-7a1d7a4f7c55"
)  # ours, for serial numbers that are the same in each build
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
_NOTE = re.compile(r"^<!--.*?-->\n", re.MULTILINE)


def home(root: Path) -> str:
    """Address of the public repository, or an empty string while there is none."""
    file = root / HOME_FILE
    return file.read_text(encoding="utf-8").strip().rstrip("/") if file.is_file() else ""


def index_page(readme: str, address: str, tag: str) -> str:
    """README as package indexes show it: links lead to the repository; without one they are text, and pictures go."""

    def replace(found: re.Match[str]) -> str:
        picture, text, target = found.groups()
        if "://" in target or target.startswith(("#", "mailto:")):
            return found.group()
        if not address:
            return "" if picture else text
        return f"{picture}[{text}]({address}/{'raw' if picture else 'blob'}/{tag}/{target})"

    return re.sub(r"\n{3,}", "\n\n", _LINK.sub(replace, _NOTE.sub("", readme)))


def project_links(address: str) -> dict[str, str]:
    """Links that package indexes list beside the page."""
    if not address:
        return {}
    return {
        "Homepage": address,
        "Documentation": f"{address}/blob/main/docs/index.md",
        "Source": address,
        "Issues": f"{address}/issues",
        "Changelog": f"{address}/blob/main/CHANGELOG.md",
    }


def bill_of_materials(project: dict[str, Any]) -> dict[str, Any]:
    """CycloneDX 1.6 document of the pure wheel: it contains pyromq alone, and requires what its metadata requires."""
    name, version = project["name"], project["version"]
    reference = f"pkg:pypi/{name}@{version}"
    components = [_component(text) for text in sorted(project["dependencies"], key=str.lower)]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(_NAMESPACE, reference)}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "library",
                "bom-ref": reference,
                "name": name,
                "version": version,
                "purl": reference,
                "licenses": [{"license": {"id": project["license"]}}],
            }
        },
        "components": components,
        "dependencies": [{"ref": reference, "dependsOn": [each["bom-ref"] for each in components]}],
    }


def _component(requirement: str) -> dict[str, Any]:
    """A package that is installed beside the wheel; its version is the installer's choice within the stated range."""
    name = re.split(r"[^\w.-]", requirement, maxsplit=1)[0]
    purl = f"pkg:pypi/{name.lower().replace('_', '-')}"
    return {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "purl": purl,
        "scope": "required",
        "properties": [{"name": "python:requirement", "value": requirement}],
    }


class CustomMetadataHook(MetadataHookInterface):
    """Fills in ``readme`` and ``urls``, which depend on where the repository is."""

    def update(self, metadata: dict[str, Any]) -> None:
        root = Path(self.root)
        address = home(root)
        readme = (root / "README.md").read_text(encoding="utf-8")
        page = index_page(readme, address, f"v{metadata['version']}")
        metadata["readme"] = {"content-type": "text/markdown", "text": page}
        metadata["urls"] = project_links(address)


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Puts the bill of materials into the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel" or version == "editable":
            return
        project = tomllib.loads((Path(self.root) / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        self._folder = tempfile.TemporaryDirectory()
        file = Path(self._folder.name) / f"{project['name']}.cyclonedx.json"
        file.write_text(json.dumps(bill_of_materials(project), indent=2) + "\n", encoding="utf-8")
        build_data["sbom_files"] = [str(file)]

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if hasattr(self, "_folder"):
            self._folder.cleanup()
