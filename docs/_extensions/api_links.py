"""Turn inline code that names something public, `smp.check_identifiability(...)` for one, into a link to its page."""

import importlib
import inspect
import re

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms import SphinxTransform

import tensorly_smp
from api_pages import part_paths

#: What variables are called in the examples, and the classes of which they are.
INSTANCES = {
    "model": "SmoothProductMixture",
    "unmixed": "UnmixedProductMixture",
    "density": "MixtureDensity",
    "model.density_": "MixtureDensity",
    "solution": "CoupledSolution",
    "binning": "Binning",
    "codes": "Codes",
    "marginals": "Marginals",
    "report": "IdentifiabilityReport",
    "model.identifiability_": "IdentifiabilityReport",
    "factors": "MixtureFactors",
    "solution.factors": "MixtureFactors",
    "status": "StopReason",
    "solution.status": "StopReason",
    "model.plot": "ModelPlots",
}
#: Classes whose methods are linked without an instance before them, the first that has it.
BARE = ("SmoothProductMixture", "MixtureDensity")
#: Methods with names that are words of other things, too.
AMBIGUOUS = {"plot", "sample", "marginal", "conditional", "mean", "var", "cov", "variables", "rank", "weights"}
#: Pages as docstrings name them.
PAGE = re.compile(r"docs/(?P<page>\w+)\.md")
NAME = re.compile(r"(?P<name>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)(?:\(.*\))?", re.S)


def public_targets():
    """Targets of links by the text of inline code, without ``smp.`` and arguments."""
    targets = {}
    classes = {}
    for name in tensorly_smp.__all__:
        thing = getattr(tensorly_smp, name)
        targets[name] = f"tensorly_smp.{name}"
        if inspect.ismodule(thing):
            for member in thing.__all__:
                targets[f"{name}.{member}"] = targets[member] = f"tensorly_smp.{name}.{member}"
        elif inspect.isclass(thing):
            classes[name] = (f"tensorly_smp.{name}", thing)
    for path in part_paths():
        module, _, name = path.rpartition(".")
        thing = getattr(importlib.import_module(f"tensorly_smp.{module}"), name)
        targets[name] = f"tensorly_smp.{path}"
        classes[name] = (f"tensorly_smp.{path}", thing)
    methods = {name: methods_of(thing) for name, (_, thing) in classes.items()}
    for name, names in methods.items():
        targets |= {f"{name}.{method}": f"{classes[name][0]}.{method}" for method in names}
    for instance, name in INSTANCES.items():
        targets |= {f"{instance}.{method}": f"{classes[name][0]}.{method}" for method in methods[name]}
    for name in BARE:
        for method in methods[name] - AMBIGUOUS:
            targets.setdefault(method, f"{classes[name][0]}.{method}")
    return targets


def methods_of(thing):
    """Names of the methods and properties that a class has from this package."""
    found = set()
    for base in thing.__mro__:
        for name, value in vars(base).items():
            function = getattr(value, "fget", None) or getattr(value, "func", None) or getattr(value, "__func__", value)
            is_ours = (getattr(function, "__module__", None) or "").startswith("tensorly_smp")
            if is_ours and inspect.isroutine(function) and not name.startswith("_"):
                found.add(name)
    return found


class ApiLinks(SphinxTransform):
    """Links to the API reference in prose; none in headings, in links and in the reference itself."""

    default_priority = 500
    targets = None

    def apply(self, **_):
        if self.env.docname.startswith("api/"):
            self.link_pages()
            return
        if ApiLinks.targets is None:
            ApiLinks.targets = public_targets()
        for literal in list(self.document.findall(nodes.literal)):
            target = self.target_of(literal)
            if target is not None:
                reference = addnodes.pending_xref(
                    "", refdomain="py", reftype="obj", reftarget=target, refexplicit=True, refwarn=True
                )
                literal.replace_self(reference)
                reference += literal

    def link_pages(self):
        """Make links of the pages that docstrings name by their files, ``docs/refinement.md`` for one."""
        for text in list(self.document.findall(nodes.Text)):
            match = PAGE.search(text)
            if match is None or isinstance(text.parent, nodes.reference | addnodes.pending_xref):
                continue
            reference = addnodes.pending_xref(
                "", refdomain="std", reftype="doc", reftarget=f"/{match['page']}", refexplicit=False, refwarn=True,
                refdoc=self.env.docname,
            )  # fmt: skip
            reference += nodes.inline("", match[0])
            pieces = [nodes.Text(text[: match.start()]), reference, nodes.Text(text[match.end() :])]
            if isinstance(text.parent, nodes.literal):
                text.parent.replace_self(pieces[1])
            else:
                text.parent.replace(text, pieces)

    def target_of(self, literal):
        """Target of the link, or None if there is to be none."""
        parent = literal.parent
        while parent is not None:
            if isinstance(parent, nodes.title | nodes.reference | addnodes.pending_xref):
                return None
            parent = parent.parent
        match = NAME.fullmatch(literal.astext())
        if match is None:
            return None
        return self.targets.get(match["name"].removeprefix("tensorly_smp.").removeprefix("smp."))


def setup(app):
    app.add_transform(ApiLinks)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
