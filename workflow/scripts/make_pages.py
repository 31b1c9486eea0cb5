"""The report's pages: each figure and table with its caption, from the numbers that the paper has."""

from pathlib import Path
from typing import Any

from lib.captions import title_of
from lib.pages import figure_body, page, table_body
from lib.script import run_script


def main(job: Any) -> None:
    """Write one page per file."""
    for file, caption, output in zip(job.input.files, job.input.captions, job.output, strict=True):
        file, caption = Path(file), Path(caption)
        body = table_body(file) if file.suffix == ".csv" else figure_body(file, title_of(caption))
        Path(output).write_text(page(body, caption, f"From {file}"), encoding="utf-8")


run_script(main, globals())
