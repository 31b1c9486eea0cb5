"""Runs as a table: for a terminal one that fits it, for a file plain text with a line per run."""

from collections import Counter
from datetime import timedelta
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from smcda.runs import status
from smcda.watch.runs import DONE, ENDED_BADLY, KILLED, SILENT, STARTING, WAITING, SeenRun, SeenStudy

STATES = {
    status.RUNNING: "green",
    STARTING: "cyan",
    status.FAILED: "bold red",
    status.DIVERGED: "bold red",
    KILLED: "bold red",
    SILENT: "yellow",
    status.STOPPED: "yellow",
    WAITING: "dim",
    DONE: "dim green",
}
"""Every state and its colour, in the order in which runs are shown where not all of them fit."""

COLUMNS = ("run", "state", "iteration", "M", "beta", "J_eff", "accepted", "test", "left", "seen")
DROPPED_FIRST = ("beta", "left", "M", "accepted", "seen")
"""Columns that a narrow terminal goes without."""
NARROWEST_NAME = 20
WIDE_ENOUGH_FOR_BARS = 110


def show(studies: list[SeenStudy], console: Console, all_rows: bool) -> RenderableType:
    """All studies; unless `all_rows`, as many of their runs as the console has lines for."""
    if not studies:
        return Text("no runs here yet")
    # Beside its runs and messages a study has a title of one or two lines, a heading and a last line.
    room = None if all_rows else console.height // len(studies) - 5
    parts: list[RenderableType] = []
    for study in studies:
        parts += [_title(study, console), *_body(study.runs, console, room)]
    return Group(*parts)


def _title(study: SeenStudy, console: Console) -> Text:
    folder = str(study.folder)
    if len(folder) > console.width // 3:
        folder = f"…/{study.folder.name}"
    counts = Counter(run.state for run in study.runs)
    in_order = dict.fromkeys((DONE, *STATES))
    said = ", ".join(f"{counts[state]} {state}" for state in in_order if counts[state])
    if study.seconds_left is not None:
        said += f"; about {duration(study.seconds_left)} left"
    return Text.assemble((folder, "bold"), f"  {len(study.runs)} runs: {said}")


def _body(runs: list[SeenRun], console: Console, room: int | None) -> list[RenderableType]:
    """The table, how many runs are not in it, and why runs ended."""
    gap = 2 if console.width >= 100 else 1
    has_bars = console.is_terminal and console.width >= WIDE_ENOUGH_FOR_BARS
    columns, name_width = _columns(runs, console.width - has_bars * (10 + gap), gap)
    chosen, messages = runs, _messages(runs)
    if room is not None:
        messages = messages[: max(room // 4, 1)]
        # Longer names are wrapped.
        lines_per_run = max(-(-len(run.name) // name_width) + (len(run.name) > name_width) for run in runs)
        chosen = _choose(runs, (room - len(messages)) // min(lines_per_run, 3))
    table = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0))
    for name in columns:
        side = "left" if name in ("run", "state") else "right"
        table.add_column(name, justify=side, no_wrap=name != "run", header_style="dim")
        if name == "iteration" and has_bars:
            table.add_column("", width=10)
    for run in chosen:
        cells: list[RenderableType] = []
        for name in columns:
            cells.append(Text(_cell(run, name), STATES[run.state] if name == "state" else ""))
            if name == "iteration" and has_bars:
                cells.append(_bar(run))
        table.add_row(*cells)
    n_left_out = len(runs) - len(chosen)
    more = [Text(f"and {n_left_out} more", "dim")] if n_left_out else []
    for message in messages:
        message.no_wrap = room is not None
    return [table, *more, *messages]


def _columns(runs: list[SeenRun], width: int, gap: int) -> tuple[list[str], int]:
    """The columns that have something to say and a place, and the width that is left for names."""
    widths = {name: max(len(name), *(len(_cell(run, name)) for run in runs)) for name in COLUMNS}
    for name in ("test", "accepted"):
        if not any(_cell(run, name) for run in runs):
            del widths[name]
    longest = widths.pop("run")
    for name in DROPPED_FIRST:
        if sum(widths.values()) + gap * (len(widths) + 1) + min(longest, NARROWEST_NAME) > width:
            widths.pop(name, None)
    left = width - sum(widths.values()) - gap * (len(widths) + 1)
    return ["run", *widths], max(min(left, longest), 1)


def _choose(runs: list[SeenRun], room: int) -> list[SeenRun]:
    """The runs that fit, those at work and those in trouble first, in the order of the study."""
    order = list(STATES)

    def urgency(run: SeenRun) -> tuple[int, float]:
        # Of those that are done, the newest.
        return order.index(run.state), (run.age_s or 0.0) if run.state == DONE else 0.0

    chosen = {id(run) for run in sorted(runs, key=urgency)[: max(room, 1)]}
    return [run for run in runs if id(run) in chosen]


def _cell(run: SeenRun, name: str) -> str:
    if name == "run":
        return run.name
    if name == "state":
        return run.state
    if name == "iteration":
        done, total = run.number("iteration"), run.number("iterations")
        return "" if done is None else f"{done:.0f}" + (f"/{total:.0f}" if total else "")
    if name == "left":
        seconds = run.number("seconds_left")
        return duration(seconds) if seconds is not None and run.state == status.RUNNING else ""
    if name == "seen":
        return "" if run.age_s is None else age(run.age_s)
    if name == "test":
        return _score(run.values.get("headline"))
    column, form = {
        "M": ("batch_size", ".0f"),
        "beta": ("beta", ".2f"),
        "J_eff": ("ess", ".1f"),
        "accepted": ("acceptance", ".2f"),
    }[name]
    value = run.number(column)
    return "" if value is None else f"{value:{form}}"


def _score(headline: Any) -> str:
    match headline:
        case ["test_accuracy", int() | float() as value]:
            return f"{value:.2f} %"
        case [str() as name, int() | float() as value]:
            return f"{name.removeprefix('test_')} {value:.4g}"
    return ""


def _bar(run: SeenRun) -> RenderableType:
    done, total = run.number("iteration"), run.number("iterations")
    if not total or run.state == DONE:
        return ""
    return ProgressBar(total=total, completed=min(done or 0, total), width=10)


def _messages(runs: list[SeenRun]) -> list[Text]:
    """Why runs ended that did not end well, one line each."""
    told = [(run, _message(run)) for run in runs if run.state in ENDED_BADLY]
    return [
        Text(f"{run.name}: {message}", STATES[run.state], overflow="ellipsis")
        for run, message in told
        if message
    ]


def _message(run: SeenRun) -> str:
    saved = run.number("saved_at")
    resumes = "rerun to start from scratch"
    if saved is not None:
        resumes = f"iteration {saved:.0f} is saved: rerun to resume"
    host, pid = run.values.get("host"), run.values.get("pid")
    if run.state == KILLED:
        return f"process {pid} on {host} is gone without a word; {resumes}"
    if "message" in run.values:
        return str(run.values["message"])
    if run.state == SILENT:
        return f"process {pid} on {host} gives no sign; killed, paused or cut off"
    return ""


def duration(seconds: float) -> str:
    """``0:03:10``, or nothing that a clock could say."""
    return str(timedelta(seconds=round(seconds))) if 0 <= seconds < 1e9 else "?"


def age(seconds: float) -> str:
    """``5 s``, ``12 min``, ``3 h``, ``2 d``."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size or (seconds >= size and size > 60):
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
