"""What the site has beside the files of docs/: pages from above them, options, and the notebook.

Links stay as a code host needs them, such as ``../CONTRIBUTING.md``; here they become links of the
site, on which a page of the checkout lies where it lies in the checkout.
"""

import json
import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files, InclusionLevel

sys.path.insert(0, str(Path(__file__).parent))
from options_page import options_page

ROOT = Path(__file__).parents[2]
PAGES = ("CONTRIBUTING.md", "CHANGELOG.md", "AGENTS.md", "data/README.md")
MANIFESTS = ("cluster.yaml", "jobs/kubernetes/raycluster.yaml", "jobs/kubernetes/rayjob.yaml")
_LINK = re.compile(r"(?<=\]\()(?!\w+:)([^)#\s]+)")
_FENCE = re.compile(r"^(```|~~~)[^\n]*\n.*?^\1", re.M | re.S)


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that lie above docs/, the manifests, and the notebook as a page."""
    for name in PAGES:
        files.append(File.generated(config, name, content=(ROOT / name).read_text()))
    for name in MANIFESTS:
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    for file in [each for each in files if each.src_uri.endswith(".ipynb")]:
        page = _notebook(file.content_string)
        target = file.src_uri.removesuffix(".ipynb") + ".md"
        files.append(File.generated(config, target, content=page))
        file.inclusion = InclusionLevel.NOT_IN_NAV
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Put the options of all commands where their page wants them, and mend links."""
    uri = page.file.src_uri
    if uri == "options.md":
        markdown = markdown.replace("<!-- the options of every command -->", options_page())
    above = uri in PAGES
    place = uri if above else f"docs/{uri}"
    parts, end = list[str](), 0
    for fence in _FENCE.finditer(markdown):  # what looks like a link in code is none
        parts += [_mended(markdown[end : fence.start()], place, uri), fence[0]]
        end = fence.end()
    return "".join([*parts, _mended(markdown[end:], place, uri)])


def _mended(markdown: str, place: str, uri: str) -> str:
    """Markdown whose links, relative to a place of the checkout, are those of the site."""

    def mend(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(place), link[1]))
        target = target.removeprefix("docs/")
        if target.endswith(".ipynb"):
            target = target.removesuffix(".ipynb") + ".md"
        return posixpath.relpath(target, posixpath.dirname(uri) or ".")

    return _LINK.sub(mend, markdown)


def _notebook(text: str) -> str:
    """A notebook as Markdown: its texts, its code, and what the code showed."""
    parts = list[str]()
    for cell in json.loads(text)["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
        elif source.strip():
            parts.append(f"```python\n{source}\n```")
        for output in cell.get("outputs", ()):
            shown = "".join(output.get("data", {}).get("text/plain", output.get("text", ())))
            parts += [f"```text\n{shown.rstrip()}\n```"] if shown else []
    return "\n\n".join(parts)
