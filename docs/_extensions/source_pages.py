"""Pages of the source code: without links back, which do not find objects that are documented under a shorter name."""

import re

BACK = re.compile(r'<a class="viewcode-back"[^>]*>.*?</a>', re.S)


def without_links_back(app, pagename, templatename, context, doctree):
    """Remove the links of one page."""
    if pagename.startswith("_modules/"):
        context["body"] = BACK.sub("", context["body"])


def setup(app):
    app.connect("html-page-context", without_links_back)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
