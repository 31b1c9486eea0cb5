"""`smcda watch`: how the runs below a folder are going, from any machine that sees it. Imports no JAX."""

import time
from pathlib import Path

from rich.console import Console
from rich.live import Live

from smcda.errors import BadInput
from smcda.watch.runs import Watcher
from smcda.watch.table import show

SECONDS_BETWEEN_LOOKS = 2.0
SHARE_OF_TIME = 0.1
"""Spent looking at most, so that a slow file system is left in peace."""
PLAIN_WIDTH = 200


def watch(folders: list[Path], once: bool) -> None:
    """Show the table until Ctrl-C; with `once`, or where nobody watches, print it and return."""
    for folder in folders:
        if not folder.is_dir():
            raise BadInput(f"{folder} is not a folder: give one that runs write into, such as results/laptop")
    console, watcher = Console(highlight=False), Watcher(folders)
    if not console.is_terminal:
        console = Console(highlight=False, width=PLAIN_WIDTH)
    if once or not console.is_terminal:
        console.print(show(watcher.look(), console, all_rows=True))
        return
    with Live(console=console, auto_refresh=False, screen=False) as live:
        try:
            while True:
                started = time.monotonic()
                live.update(show(watcher.look(), console, all_rows=False), refresh=True)
                took = time.monotonic() - started
                time.sleep(max(SECONDS_BETWEEN_LOOKS, took / SHARE_OF_TIME))
        except KeyboardInterrupt:
            pass  # the usual way to leave
