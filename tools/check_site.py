"""Check the pages that Sphinx has built: python tools/check_site.py docs/_build/html.

Nothing may come from another site but what a reader clicks on, every link within the site must lead somewhere, every
picture needs words for those who do not see it, and every page a description. Faults are printed, and the exit status
is their number, at most 100.
"""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

#: Attributes from which a browser loads something without being asked.
LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "srcset", "link": "href"}
#: Kinds of <link> that load nothing.
UNLOADED = {"canonical", "author", "next", "prev", "index", "search", "copyright", "license"}
EXTERNAL = re.compile(r"[a-z][a-z0-9+.-]*:|//", re.I)


class Page(HTMLParser):
    """What one page loads and links to, its anchors, and what is wrong with it."""

    def __init__(self, text):
        super().__init__()
        self.links, self.anchors, self.loads, self.faults = [], set(), [], []
        self.has_description = False
        self.feed(text)
        if not self.has_description:
            self.faults.append("no description")

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.anchors |= {values[name] for name in ("id", "name") if values.get(name)}
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])
        if tag == "meta" and values.get("name") == "description" and values.get("content"):
            self.has_description = True
        is_logo = "logo__image" in (values.get("class") or "")  # its name stands beside it
        if tag == "img" and not is_logo and not (values.get("alt") or "").strip():
            self.faults.append(f"picture without words: {values.get('src')}")
        target = values.get(LOADED.get(tag, ""))
        if target and not (tag == "link" and set((values.get("rel") or "").split()) & UNLOADED):
            self.loads.append(target)


def is_external(target):
    """Whether a link leads out of the site."""
    return bool(EXTERNAL.match(target)) and not target.startswith("data:")


def faults_of(folder):
    """Pairs (page, fault) of the pages in a folder."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(folder.rglob("*.html"))}
    pages = {path: page for path, page in pages.items() if "_static" not in path.relative_to(folder).parts}
    for path, page in pages.items():
        name = path.relative_to(folder).as_posix()
        found = list(page.faults)
        found += [f"loads from another site: {target}" for target in page.loads if is_external(target)]
        found += [f"loads a file that is not there: {target}" for target in page.loads if not exists(path, target)]
        found += [f"link leads nowhere: {target}" for target in page.links if not leads(path, target, pages)]
        yield from ((name, fault) for fault in dict.fromkeys(found))


def exists(path, target):
    """Whether the file that a page loads is there, or is on another site, or within the page."""
    if EXTERNAL.match(target):
        return True
    return (path.parent / unquote(target.partition("?")[0].partition(" ")[0])).exists()


def leads(path, target, pages):
    """Whether a link within the site leads to a file, and to an anchor that is on it."""
    if EXTERNAL.match(target):
        return True
    name, _, anchor = target.partition("#")
    file = (path.parent / unquote(name.partition("?")[0])).resolve() if name else path.resolve()
    if file.is_dir():
        file /= "index.html"
    if not file.exists():
        return False
    return not anchor or file not in pages or unquote(anchor) in pages[file].anchors


def main(folder):
    faults = list(faults_of(Path(folder).resolve()))
    for page, fault in faults:
        print(f"{page}: {fault}", file=sys.stderr)
    return min(len(faults), 100)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
