"""Options of a run."""

import os
from pathlib import Path


def cache_dir() -> Path:
    """Where compiled programs are cached for the next run, unless the user chooses another place."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "smcda" / "compiled"
