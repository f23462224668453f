"""How Sphinx builds these pages: python -m sphinx -W -b html docs docs/_build."""

from __future__ import annotations

import contextlib
import io
import os
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive

import fastmcmd
from fastmcmd import cli

project = "fastmcmd"
copyright = "the fastmcmd developers"
version = release = fastmcmd.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "numpydoc",
]
exclude_patterns = ["_build"]
default_role = "py:obj"  # `name` in docstrings is a link where the name is known
myst_heading_anchors = 3

autodoc_typehints = "none"  # docstrings say shapes and defaults, which types cannot
autodoc_member_order = "bysource"
numpydoc_show_class_members = False  # autodoc lists them
numpydoc_xref_param_type = False  # a word of a type, such as "mean" of "(mean, std)", is not a link

html_theme = "furo"
html_title = f"fastmcmd {release}"
html_copy_source = False


class CommandHelp(Directive):
    """The text of ``fastmcmd COMMAND --help``, from the command itself."""

    optional_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return the text as a block of code."""
        os.environ.update(COLUMNS="88", NO_COLOR="1")  # argparse wraps at the width of a terminal
        text = io.StringIO()
        with contextlib.redirect_stdout(text), contextlib.suppress(SystemExit):
            cli.main([*self.arguments, "--help"])
        return [nodes.literal_block(text.getvalue(), text.getvalue(), language="text")]


def escape_types(
    app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]
) -> None:
    """Show stars in types, such as ``callable (y, **options)``, instead of taking them as markup."""
    del app, what, name, thing, options
    for index, line in enumerate(lines):
        named, colon, kind = line.partition(
            "** : "
        )  # as numpydoc writes the name and type of a parameter
        if named.lstrip().startswith("**") and colon and "``" not in kind:
            lines[index] = named + colon + kind.replace("*", r"\*")


def setup(app: Any) -> None:
    """Tell Sphinx of the directive."""
    app.add_directive("command-help", CommandHelp)
    app.connect("autodoc-process-docstring", escape_types, priority=900)  # after numpydoc
