"""How the workflow's scripts and commands start, and which files scripts are made of."""

import os
import re
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

WORKFLOW = Path("workflow")


def run_script(main: Callable[[Any], None], namespace: dict[str, Any]) -> None:
    """Call `main` with the job if Snakemake runs the script, and do nothing if a test imports it.

    Snakemake puts `snakemake` into the script's globals. A failure is written into the rule's log and to
    the terminal.
    """
    if "snakemake" not in namespace:
        return
    job = namespace["snakemake"]
    log = Path(job.log[0])
    log.write_text("")
    try:
        main(job)
    except BaseException:
        log.write_text(traceback.format_exc())
        raise


def prefer_own_commands() -> None:
    """Let rules find the commands of the environment that runs Snakemake, also when it was not activated."""
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"


def sources(script: str) -> list[str]:
    """A script of the workflow and all modules of the workflow that it imports, directly or not."""
    found, pending = set(), {WORKFLOW / "scripts" / script}
    while pending:
        file = pending.pop()
        found.add(file)
        imported = re.findall(r"^from (lib\.)?(\w+) import", file.read_text(), re.MULTILINE)
        modules = {WORKFLOW / ("lib" if package else "scripts") / f"{name}.py" for package, name in imported}
        pending |= {module for module in modules - found if module.exists()}
    return sorted(map(str, found))
