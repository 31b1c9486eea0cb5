"""The study that the project's config.yaml asks for."""

from pathlib import Path

import yaml
from lib.study import Study, resolve

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "paper" / "reference"
CONFIG = yaml.safe_load((ROOT / "config.yaml").read_text())


def study_of(changes=None, /, **more) -> Study:
    """Resolve the project's config with some top-level keys changed."""
    return resolve(CONFIG | (changes or {}) | more)
