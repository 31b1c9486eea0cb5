"""What the runs below a folder say of themselves: status files, results, and the plan that a study leaves.

Files are only read and no process is asked, so it works from any machine that sees the folder. A file that
disappears while it is read, or is damaged, is no error: a run may end at any moment.
"""

import csv
import json
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from smcda.runs import status

PLAN = "plan.json"
RESULT = "metrics.json"
DONE, WAITING, STARTING, KILLED, SILENT = "done", "waiting", "starting", "killed", "silent"
ENDED_BADLY = (status.FAILED, status.DIVERGED, KILLED, SILENT, status.STOPPED)

SURELY_OVERDUE_S = 3 * status.SECONDS_BETWEEN_WRITES
"""From this age on a status whose process is gone, on this machine, is that of a killed run."""
SILENT_AFTER_S = 120.0
"""More than a network file system may take to show a change to other machines."""


class SeenRun(NamedTuple):
    """One run as its files show it; None is what they don't say."""

    name: str
    state: str
    age_s: float | None = None
    """Since the last sign of life, or since the end."""
    values: dict[str, Any] = {}
    """By the names of the status file."""
    cost: float = 0.0
    """Gradient evaluations planned."""

    def number(self, name: str) -> float | None:
        """A value, if it is a number."""
        value = self.values.get(name)
        return value if isinstance(value, int | float) and not isinstance(value, bool) else None


class SeenStudy(NamedTuple):
    """The runs of a study, or those below a folder that belong to none."""

    folder: Path
    runs: list[SeenRun]
    seconds_left: float | None


class Watcher:
    """Finds the runs below some folders again and again; what has not changed is not read twice."""

    def __init__(self, folders: list[Path]) -> None:
        """Read nothing yet."""
        self._folders = folders
        self._known: dict[Path, tuple[tuple[int, int], dict[str, Any]]] = {}

    def look(self) -> list[SeenStudy]:
        """Everything as it is now."""
        now = time.time()
        studies: dict[Path, dict[Path, SeenRun]] = {}
        plans: dict[Path, dict[str, Any]] = {}
        for root in self._folders:
            for folder, names, study in _walk(root, _study_above(root)):
                if PLAN in names:
                    plans[folder] = self._read(folder / PLAN)
                    studies.setdefault(folder, {})
                if RESULT in names or status.NAME in names:
                    place = study or root
                    name = _name_of(folder, place, study is not None)
                    if seen := self._run(folder, name, now):
                        studies.setdefault(place, {})[folder] = seen
        return [
            _with_plan(folder, runs, plans.get(folder, {}), now) for folder, runs in sorted(studies.items())
        ]

    def _run(self, folder: Path, name: str, now: float) -> SeenRun | None:
        """The run whose files are in a folder, if they are a run's."""
        live, result = _changed(folder / status.NAME), _changed(folder / RESULT)
        if live and (not result or live >= result):
            values = self._read(folder / status.NAME)
            age = max(now - live[0] / 1e9, 0.0)
            return SeenRun(name, _state(values, age), age, values)
        if not result:
            return None
        values = self._read(folder / RESULT)
        if "scheme" not in values:
            return None  # another program's
        values = values | self._last_row(folder / "trace.csv")
        values["headline"] = _headline(values)
        values["iterations"] = None if values["scheme"] == "adaptive" else values.get("iterations")
        return SeenRun(name, DONE, max(now - result[0] / 1e9, 0.0), values)

    def _read(self, path: Path) -> dict[str, Any]:
        """A JSON object, or nothing where there is none."""

        def read() -> dict[str, Any]:
            found = json.loads(path.read_text(encoding="utf-8"))
            return found if isinstance(found, dict) else {}

        return self._once(path, read)

    def _last_row(self, path: Path) -> dict[str, Any]:
        """What the status file had, from the last row of the trace."""

        def read() -> dict[str, Any]:
            with path.open("rb") as file:
                header = file.readline()
                file.seek(max(file.seek(0, os.SEEK_END) - 4096, 0))
                last = file.read().splitlines()[-1]
            names, values = (next(csv.reader([line.decode()])) for line in (header, last))
            row = dict(zip(names, values, strict=True))
            shown = {name: float(row[name]) for name in status.SHOWN if row.get(name)}
            return shown | {"iteration": int(row["iteration"]) + 1}

        return self._once(path, read)

    def _once(self, path: Path, read: Any) -> dict[str, Any]:
        """What `read` returns, called again only when the file has changed."""
        changed = _changed(path)
        if not changed:
            return {}
        if path not in self._known or self._known[path][0] != changed:
            try:
                found = read()
            except (OSError, ValueError, LookupError, RecursionError):
                found = {}  # gone meanwhile, or damaged
            self._known[path] = changed, found
        return self._known[path][1]


def _walk(folder: Path, study: Path | None) -> Iterator[tuple[Path, set[str], Path | None]]:
    """Every folder with the names of its files and the study it belongs to; none inside a run's."""
    try:
        with os.scandir(folder) as entries:
            found = sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries)
    except OSError:
        return  # removed meanwhile, or not ours to read
    names = {name for name, is_folder in found if not is_folder}
    yield folder, names, study
    if names & {RESULT, status.NAME}:
        return
    if PLAN in names or any(name == "runs" and is_folder for name, is_folder in found):
        study = folder
    for name, is_folder in found:
        if is_folder and not name.startswith(".") and not name.endswith("checkpoints") and name != "logs":
            yield from _walk(folder / name, study)


def _study_above(folder: Path) -> Path | None:
    """The study that a folder is part of, such as results/laptop for results/laptop/runs/mnist."""
    above = folder.absolute().parents
    return next((parent for parent in above if (parent / PLAN).is_file()), None)


def _name_of(folder: Path, place: Path, in_study: bool) -> str:
    """``mnist linear hmc 0`` for results/laptop/runs/mnist/linear/hmc/seed-0; outside a study the path."""
    parts = folder.absolute().relative_to(place.absolute()).parts
    if in_study and len(parts) >= 5 and parts[-1].startswith("seed-"):
        before = parts[1:] if parts[0] == "runs" else parts
        return " ".join([*before[:-1], parts[-1].removeprefix("seed-")])
    return "/".join(parts) or folder.absolute().name


def _changed(path: Path) -> tuple[int, int] | None:
    """When a file was last written, in nanoseconds, and its size; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def _state(values: dict[str, Any], age: float) -> str:
    """The state that a status file says, unless its age says otherwise."""
    said = values.get("state")
    if said in (status.STOPPED, status.DIVERGED, status.FAILED):
        return said
    if age > SURELY_OVERDUE_S and values.get("host") == socket.gethostname() and _is_gone(values.get("pid")):
        return KILLED
    if age > SILENT_AFTER_S:
        return SILENT
    return status.RUNNING if "iteration" in values else STARTING


def _is_gone(pid: Any) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except (OSError, TypeError, OverflowError):
        pass  # another user's, or no number
    return False


def _headline(metrics: dict[str, Any]) -> list[Any] | None:
    """The score that is shown of a finished run: accuracy, or whatever its likelihood has beside it."""
    names = [name for name in metrics if name.startswith("test_")]
    names.sort(key=lambda name: (name != "test_accuracy", name == "test_log_likelihood", "coverage" in name))
    return [names[0], metrics[names[0]]] if names else None


def _with_plan(folder: Path, runs: dict[Path, SeenRun], plan: dict[str, Any], now: float) -> SeenStudy:
    """A study with the runs that are planned and of which there is no file yet, in the order of the plan."""
    planned = plan.get("runs")
    planned = planned if isinstance(planned, dict) else {}
    started = plan.get("started")
    if not isinstance(started, int | float):
        started = now
    listed = []
    for place, cost in planned.items():
        path = folder / place
        if path.name[:5] != "seed-" or ".." in path.parts:
            continue  # not written by us
        cost = float(cost) if isinstance(cost, int | float) else 0.0
        seen = runs.pop(path, None) or _not_seen(path, folder, started, now)
        listed.append(seen._replace(cost=cost))
    everything = listed + list(runs.values())
    return SeenStudy(folder, everything, _seconds_left(listed, started, now))


def _not_seen(path: Path, study: Path, started: float, now: float) -> SeenRun:
    """A planned run without a file of its own: its log says whether it has been started."""
    name = _name_of(path, study, True)
    log = study / "logs" / path.relative_to(study).with_suffix(".log")
    changed = _changed(log)
    if not changed or changed[0] / 1e9 < started:
        return SeenRun(name, WAITING)
    age = max(now - changed[0] / 1e9, 0.0)
    if age <= SILENT_AFTER_S:
        return SeenRun(name, STARTING, age)
    return SeenRun(name, SILENT, age, {"message": f"nothing but its log: {log}"})


def _seconds_left(runs: list[SeenRun], started: float, now: float) -> float | None:
    """Time that the plan still takes: its time so far over the cost so far, times the cost to come."""
    if not any(run.state in (status.RUNNING, STARTING) for run in runs):
        return None
    paid = to_come = 0.0
    for run in runs:
        if run.state == DONE:
            # What was there when the plan was made took none of its time.
            if run.age_s is not None and run.age_s < now - started:
                paid += run.cost
            continue
        share = 0.0
        if run.state == status.RUNNING and (total := run.number("iterations")):
            share = min((run.number("iteration") or 0) / total, 1.0)
        paid += share * run.cost
        to_come += (1 - share) * run.cost
    return (now - started) * to_come / paid if paid else None
