"""Blocks of code in a Markdown page that are run: by the tests, and by the build where a page shows what they draw."""

import re
import textwrap

# Opening fence (perhaps indented, in a list), body, the same fence. ```python runs, ```pycon is a session with ">>> "
# whose output is compared, and ```{run} shows what its code draws or returns. Nothing else runs, so a block that cannot
# is marked by its language, ```py.
FENCE = re.compile(
    r"^(?P<indent>[ \t]*)(?P<fence>`{3,})(?P<language>python|pycon|\{run\})[ \t]*\n"
    r"(?P<body>.*?)^(?P=indent)(?P=fence)[ \t]*$",
    re.M | re.S,
)
OPTION = re.compile(r":[a-z-]+:.*\n")


def code_blocks(text):
    """Triples (language, first line number, code) of the blocks that run; the language of ```{run} is "run"."""
    for match in FENCE.finditer(text):
        first = text.count("\n", 0, match.start("body")) + 1
        body = textwrap.dedent(match["body"])
        while match["language"] == "{run}" and (option := OPTION.match(body)):
            body = body[option.end() :]
            first += 1
        yield match["language"].strip("{}"), first, body
