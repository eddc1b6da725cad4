"""How Sphinx makes the site, which `make site` builds and `tests/docs/test_site.py` judges."""

from __future__ import annotations

import ast
from enum import Enum
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer
from sphinx.transforms import SphinxTransform

import kframework
from kframework.core.runtime import timing
from kframework.framework import answers, handle, plugin

# For the signature of a struct its annotations are evaluated; these name what only type checkers import there.
vars(answers)["PodInfo"] = vars(timing)["PodInfo"] = vars(handle)["PodInfo"] = kframework.PodInfo
vars(handle)["Status"] = kframework.Status
vars(plugin)["ApiObject"] = kframework.ApiObject

#: The doors that have a page in reference/api.
DOORS = ("kframework", "kframework.testing", "kframework.objects", "kframework.engine", "kframework.gym")

project = "kframework"
copyright = "the authors of kframework"
version = release = kframework.__version__

extensions = [
    "myst_parser",  # the documents are Markdown, as a reader of the repository sees them
    "sphinx.ext.autodoc",  # names and signatures of the doors come from the doors
]
exclude_patterns = ["README.md"]  # index.rst includes it and adds the list of all pages

# What a docstring has between single backticks is code, as in Markdown.
default_role = "code"
myst_heading_anchors = 4

autodoc_default_options = {"members": True, "imported-members": True, "show-inheritance": True}
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
add_module_names = False
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = f"kframework {release}"
html_show_sourcelink = False
html_copy_source = False


class LinksOutside(SphinxTransform):
    """What becomes of links to folders, and to Markdown that is no page of the site; other files come along with it."""

    default_priority = 5

    def apply(self, **kwargs: Any) -> None:
        """Lead to a folder's list of pages, else keep the bare text; what is not there is left for Sphinx to name."""
        for link in [link for link in self.document.findall(pending_xref) if link["reftype"] == "myst"]:
            target = self.target(link)
            pages = self.env.path2doc(target / "index.rst")
            if pages in self.env.found_docs:
                link["refdomain"], link["reftarget"], link["reftargetid"] = "doc", pages, None
            elif target.is_dir() or (target.is_file() and not target.is_relative_to(self.env.srcdir)):
                link.replace_self(nodes.inline("", "", *link[0].children))

    def target(self, link: pending_xref) -> Path:
        """Return the file or folder that a link is to."""
        if link["refdomain"] == "doc":
            return self.env.srcdir / f"{link['reftarget']}.md"  # a document outside goes by its absolute path
        return Path(self.env.doc2path(self.env.docname)).parent.joinpath(link["reftarget"]).resolve()


def show_members_of_enums(app: Sphinx, what: str, name: str, member: object, *rest: object) -> bool | None:
    """Show what an enumeration lists, also what needs no word of explanation; leave all else to Sphinx."""
    return False if isinstance(member, Enum) and not name.startswith("_") else None


def hand_on_comments(app: Sphinx) -> None:
    """Give a door the comments `#:` of the constants that it hands on: Sphinx looks for them in the door alone."""
    for door in DOORS:
        comments, code = read_comments(door)
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("kframework."):
                of_home, _ = read_comments(node.module or "")
                comments |= {key: text for key, text in of_home.items() if key in {("", a.name) for a in node.names}}


def read_comments(module: str) -> tuple[dict[tuple[str, str], list[str]], str]:
    """Return the comments of a module that Sphinx keeps, by class and name, and the module's source."""
    analyzer = ModuleAnalyzer.for_module(module)
    analyzer.analyze()
    return analyzer.attr_docs, analyzer.code


def setup(app: Sphinx) -> None:
    """Add what this site needs beside Sphinx's own."""
    app.connect("autodoc-skip-member", show_members_of_enums)
    app.connect("builder-inited", hand_on_comments)
    app.add_transform(LinksOutside)
