"""Hooks of mkdocs: pages link to files of the repository as they do on the repository's own page.

A link out of docs/, such as ``../results/README.md``, leads to a copy of that file in the site, under
``repository/``. Markdown becomes a page, and what it links to follows; any other file is shown as code.
"""

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
COPIES = "repository/"
LINK = re.compile(r"(?<=\]\()([^)\s#:]+)(#[^)\s]*)?(?=\))")
"""A relative link of a page: its path, and perhaps an anchor."""

SHOWN_AS = {".py": "python", ".yaml": "yaml", ".json": "json"}
SHOWN_BYTES = 100_000


def on_files(files: Files, config: Any) -> Files:
    """Add a copy of every file of the repository that a page links to, or that the navigation names."""
    named = re.findall(rf"'{COPIES}([^']+)'", str(config["nav"]))
    waiting = [*named, *(f"docs/{file.src_uri}" for file in files.documentation_pages())]
    seen = set(waiting)
    while waiting:
        path = waiting.pop()
        if not path.startswith("docs/"):
            files.append(File.generated(config, _in_site(path), content=_content(path)))
        if path.endswith(".md"):
            linked = {_linked(path, target) for target, _ in LINK.findall((ROOT / path).read_text())}
            new = {each for each in linked - seen if not each.startswith("docs/") and _can_be_shown(each)}
            seen |= new
            waiting += sorted(new)
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Turn links of the repository into links of the site; what leads nowhere stays, and fails the build."""
    source = page.file.src_uri
    path = source.removeprefix(COPIES) if source.startswith(COPIES) else f"docs/{source}"

    def of_site(link: re.Match[str]) -> str:
        target = _in_site(_linked(path, link[1]))
        if files.get_file_from_path(target) is None:
            return link[0]
        return posixpath.relpath(target, posixpath.dirname(source)) + (link[2] or "")

    return LINK.sub(of_site, markdown)


def _linked(path: str, target: str) -> str:
    """Where a link of a file leads, as a path in the repository."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), target))


def _in_site(path: str) -> str:
    """Where the site has a file of the repository."""
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return COPIES + path + ("" if path.endswith(".md") else ".md")


def _can_be_shown(path: str) -> bool:
    file = ROOT / path
    return file.is_file() and not path.startswith("..") and file.stat().st_size < SHOWN_BYTES


def _content(path: str) -> str:
    """A file as a page."""
    text = (ROOT / path).read_text()
    if path.endswith(".md"):
        return text
    # Its words would crowd the results of a search.
    head = (
        f"---\nsearch: {{exclude: true}}\n---\n\n# {posixpath.basename(path)}\n\n`{path}` of the repository."
    )
    return f"{head}\n\n````{SHOWN_AS.get(Path(path).suffix, 'text')}\n{text}````\n"
