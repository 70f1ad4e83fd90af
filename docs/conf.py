"""The docs site: `make site` builds it below build/site. Its source directory is the repository.

So the pages stay where GitHub shows them, and a link is right in both places.
"""

import re
from collections.abc import Iterator

project = "targetnet"
root_doc = "docs/index"
include_patterns = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/**"]
# Directories that Sphinx would walk through in search of pages.
exclude_patterns = ["agents", "build", "configs", "envs", "rl_core", "runs", "targetnet", "tests"]
exclude_patterns += ["**/.*", ".*", "**/__pycache__", "dist", "results"]
extensions = ["sphinx.ext.autodoc", "sphinx.ext.napoleon", "myst_nb"]

# Pages.
html_theme = "furo"
html_title = "targetnet"
html_extra_path = ["site"]  # build/site/index.html, which leads to the first page
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
highlight_language = "text"
smartquotes = False
myst_heading_anchors = 3  # the anchors of GitHub
myst_enable_extensions = ["colon_fence"]

# Notebooks. Nothing is loaded from the net: no widgets, no MathJax.
nb_execution_mode = "force"
nb_execution_in_temp = True
nb_execution_timeout = 300
nb_execution_raise_on_error = True
nb_ipywidgets_js: dict[str, dict[str, str]] = {}

# The API reference.
autodoc_preserve_defaults = True
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
napoleon_use_ivar = True
napoleon_use_rtype = False
python_display_short_literal_types = True
python_maximum_signature_line_length = 88
autodoc_default_options = {"members": True}
default_role = "py:obj"  # backticks in docstrings: a link where there is such a name

_SECTION = re.compile(r"(Args|Attributes|Raises|Returns|Yields):$")


def markdown_to_rst(lines: list[str]) -> Iterator[str]:
    """Yields a docstring's lines: indented blocks become literal, the rest is plain text."""
    literal = in_section = False
    for before, line in zip(["", *lines], lines, strict=False):
        in_section = in_section or bool(_SECTION.match(line))
        indented = line.startswith("    ") and not in_section
        if indented and not literal and not before:
            yield from ("::", "")
        literal = indented or (literal and not line)
        yield line if literal else plain(line)


def plain(line: str) -> str:
    """Returns a line in which only names between backticks mean something to Sphinx."""
    return re.sub(r"`([^`]*)`|([*|\\]|_\b)", _plain, line)


def _plain(found: re.Match[str]) -> str:
    code, special = found.groups()
    if special:
        return f"\\{special}"
    return f"`{code}`" if re.fullmatch(r"[A-Za-z_][\w.]*", code) else f"``{code}``"


def translate(app, what, name, thing, options, lines):
    lines[:] = markdown_to_rst(list(lines))


def skip_fields_of_tuples(app, what, name, thing, skip, options):
    return True if type(thing).__name__ == "_tuplegetter" else None


def setup(app):
    app.connect("autodoc-process-docstring", translate, priority=400)  # before napoleon
    app.connect("autodoc-skip-member", skip_fields_of_tuples)
