"""Titles and captions of the report's entries: one file each, in `workflow/report`."""

from pathlib import Path

from lib.script import WORKFLOW

REPORT = WORKFLOW / "report"
TEMPLATES = sorted(REPORT.glob("*.html.j2"))


def caption_of(name: str) -> Path:
    """The file of an entry's title and caption. Those of the reference study share the study's."""
    return REPORT / f"{name.removeprefix('reference_')}.rst"


def title_of(caption: Path) -> str:
    """The first line of a caption."""
    return caption.read_text(encoding="utf-8").partition("\n")[0]
