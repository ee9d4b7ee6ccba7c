"""Sphinx's settings for the book. book.py copies this file beside the pages that it writes, and runs Sphinx."""

import os
import re
import sys
from pathlib import Path

sys.path.insert(0, os.environ["COURSE_DOCS"])
from formulas import mathml  # noqa: E402

project = "Distributed training and serving of large language models"
html_title = os.environ.get("COURSE_TITLE", "Distributed LLMs")
extensions = ["myst_nb"]
myst_enable_extensions = ["dollarmath"]
myst_dmath_double_inline = True
nb_execution_mode = "off"  # executed.py has run the chapters
nb_merge_streams = True
html_theme = "furo"
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0a5c99", "color-brand-content": "#0a5c99"},
    "dark_css_variables": {"color-background-primary": "#111",  # as that of dark pictures
                           "color-brand-primary": "#6cb8ee", "color-brand-content": "#6cb8ee"},
}
html_static_path = ["_static"]
html_css_files = ["book.css"]
html_js_files = [(name, {"defer": "defer"}) for name in ("terms.js", "guess.js", "book.js")]
html_math_renderer = "mathml"
html_copy_source = False
html_use_index = False  # the glossary is one
html_show_sphinx = False
html_show_copyright = False
html_show_search_summary = False  # it is fetched, and a page opened from disk may fetch nothing: search.js shows one
pygments_style = "friendly"
pygments_dark_style = "native"
highlight_language = "none"  # of a fence that names none; cells of code are Python
suppress_warnings = ["mystnb.unknown_mime_type", "misc.highlighting_failure", "myst.xref_ambiguous"]


UNIT = (r"%|[kKMGTP]?i?B|[kMGT]?bit|[µmn]?s|[kM]?W|[MGTP]?FLOPs?|FLOP|seconds|minutes|hours|days|bytes|"
        r"[mb]illion|trillion")
SIGN = re.compile(rf"(?<=\d) ([·×→]) (?=\d)|(?<=\d) (?=(?:{UNIT})(?!\w))")  # between numbers, or before a unit
OPTION = re.compile(r"(?:^|\s)--?\w")


def keep_together(app, doctree):
    """Keep on one line what belongs together.

    A formula and the punctuation that follows it, which would else begin the next line alone; numbers and the sign
    between them, as in 2 · 7/8; a number and its unit; and an option after its dash.
    """
    from docutils import nodes

    for node in doctree.findall(nodes.literal):
        node["classes"] += ["option"] * bool(OPTION.search(node.astext()))
    for node in list(doctree.findall(nodes.Text)):
        said = SIGN.sub(lambda found: f"\xa0{found[1]}\xa0" if found[1] else "\xa0", node)
        if said != node and isinstance(node.parent, nodes.TextElement) and not isinstance(
                node.parent, nodes.literal | nodes.FixedTextElement | nodes.math | nodes.raw):
            node.parent.replace(node, nodes.Text(said))
    for node in doctree.findall(nodes.math):
        after = node.next_node(descend=False, siblings=True)
        if isinstance(after, nodes.Text) and (mark := re.match(r"[.,;:?!)’”]+", after)):
            node["after"] = mark[0]
            after.parent.replace(after, nodes.Text(after[mark.end():]))


def formula(self, node):
    """Write a formula as MathML, in place of a script that would typeset it later."""
    from docutils import nodes

    display = not isinstance(node, nodes.math)
    try:
        parts = re.split(r"(?:\\qquad(?![a-zA-Z])\s*)+", node.astext().strip()) if display else []  # may wrap
        apart = len(parts) > 1 and all(one.count("{") == one.count("}") and "\\begin" not in one for one in parts)
        written = "".join(mathml(one, display) for one in (parts if apart else [node.astext()]))
    except ValueError as error:
        raise SystemExit(str(error)) from None
    if after := node.get("after", ""):
        written = f'<span class="together">{written}{after}</span>'
    self.body.append(f'<div class="formula">{written}</div>' if display else written)
    raise nodes.SkipNode


def on_search(app, page, template, context, tree):
    """Bring to the page of the search what shows the text around a word."""
    for name in ("texts.js", "search.js") if page == "search" else ():
        app.add_js_file(name, loading_method="defer")


def shorter(app, page, template, context, tree):
    """Give an exercise its name alone in the contents of a page, and what goes further its title alone."""
    from bs4 import BeautifulSoup

    toc = BeautifulSoup(context.get("toc", ""), "html.parser")
    for link in toc("a", string="Going further"):
        if sections := link.find_next_sibling("ul"):
            sections.decompose()
    context["toc"] = str(toc).replace(">Exercise: <code", "><code")


def setup(app):
    app.add_config_value("made_by", Path(__file__).read_text(encoding="utf-8"), "env")  # pages are made again with it
    app.connect("html-page-context", on_search)
    app.connect("html-page-context", shorter)
    app.connect("doctree-read", keep_together)
    app.add_html_math_renderer("mathml", (formula, None), (formula, None))
