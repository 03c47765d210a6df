"""Settings of the documentation site; ``make docs`` builds it into ``.cache/site``.

Pages are Markdown files that read well without the site too. What only the site has (a list of all commands, the API
from docstrings, navigation) is added while it is built, by ``docs/site_pages``.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "src")]

from site_pages import docstrings, pages  # noqa: E402

project = "PyroMQ"
author = "the PyroMQ authors"
copyright = "the PyroMQ authors, Apache-2.0"  # noqa: A001  Sphinx reads this name
version = release = pages.version_of(HERE.parent / "pyproject.toml")

extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["site_pages"]
source_suffix = {".md": "markdown"}
root_doc = "index"
nitpicky = False  # types of other libraries and of inner modules have no page

myst_heading_anchors = 4  # the anchors that GitHub makes
myst_links_external_new_tab = False

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_class_signature = "mixed"
python_maximum_signature_line_length = 88
python_use_unqualified_type_names = True

html_theme = "furo"  # no fonts, scripts or pictures from elsewhere
html_title = "PyroMQ"
html_static_path = ["images", "site_pages/static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_favicon = "images/logo.svg"
html_theme_options = {
    "light_logo": "logo.svg",
    "dark_logo": "logo.svg",
    "light_css_variables": {"color-brand-primary": "#a83c22", "color-brand-content": "#a83c22"},
    "dark_css_variables": {"color-brand-primary": "#f08a66", "color-brand-content": "#f08a66"},
}
highlight_language = "text"  # of blocks that do not say; most are terminals and drawings
pygments_style = "default"
pygments_dark_style = "github-dark"


def setup(app: Sphinx) -> None:
    docstrings.import_public_names()
    app.connect("source-read", pages.complete)
    app.connect("autodoc-process-docstring", docstrings.as_restructured_text)
    app.connect("autodoc-skip-member", docstrings.is_elsewhere)
