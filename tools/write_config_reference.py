"""Write what the workflow's config models say: the JSON schema of config.yaml and docs/config.md.

python tools/write_config_reference.py
"""

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "workflow"))

from lib.config import RUN_KEYS, Ablation, Config, Dataset, Scale  # noqa: E402
from lib.small_config import METHODS, SmallData  # noqa: E402

HEAD = """\
# Keys of config.yaml

Generated from `workflow/lib/config.py` and `smcda/config.py` by `python tools/write_config_reference.py`;
do not edit by hand. Options of the sampler are those of `smcda run`, with the same defaults.

Snakemake refuses a config that breaks a rule before any job starts, in one line: the key, the value, what is
allowed. Every key of a scale may also stand at the top level or on the command line, where it overrules the
scale's own:

    snakemake --cores all --config scale=paper particles=10 seeds='[0]'
"""

DATASETS = """\
`datasets` is a list of built-in names, or a mapping from each name to what it is:

    datasets:
      mnist: {}
      wine: {data: data/wine.npz, model: "my_models.py:mlp", likelihood: gaussian, model_options: {width: 32}}

A list at the top level, such as on the command line, or in an ablation selects from a scale's mapping. Paths
start at the project's folder. The data and the file of the model are inputs of the runs: where one changes,
its runs are made again and no others. Values of `model_options` that are text are read as Python literals
where they are one, as on the command line.
"""

SMALL_DATA = """\
`small_data` has the grid of `snakemake small_data`, which does not depend on the scale. Its keys can be given
on the command line, one by one; a run's command depends on its own cell alone, so finished runs stay when the
grid grows:

    snakemake small_data --cores 1 --config small_data='{n_train: [250], only: [smc_adaptive], seeds: [0]}'
"""


def schema() -> str:
    """JSON schema of the file, for editors that check while one types."""
    return json.dumps(Config.model_json_schema(), indent=2) + "\n"


def page() -> str:
    """Reference page: tables for the file, a scale and a dataset, one sentence for ablations."""
    of_file = Config.model_json_schema()["properties"]
    of_scale = Scale.model_json_schema()["properties"]
    only_file = {name: rule for name, rule in of_file.items() if name not in of_scale}
    of_small_data = SmallData.model_json_schema()["properties"]
    del only_file["small_data"]
    not_in_ablations = ", ".join(f"`{name}`" for name in of_scale if name not in Ablation.model_fields)
    of_dataset = {
        name: rule for name, rule in Dataset.model_json_schema()["properties"].items() if name not in RUN_KEYS
    }
    overrides = ", ".join(f"`{name}`" for name in RUN_KEYS)
    sections = [
        HEAD,
        f"## Of the whole file\n\n{table(only_file)}",
        f"## Of a scale\n\n{table(of_scale)}",
        f"## Of a dataset\n\n{DATASETS}\n{table(of_dataset)}",
        f"Any option of a run overrides the scale's for this dataset: {overrides}. `prior_scale`, `start` "
        "and `batch_norm` of a scale are those of the built-in networks: a model of your own is given them "
        "only by its own entry.\n",
        "## Of an ablation\n\nEvery key of a scale but "
        f"{not_in_ablations}. What an ablation does not name is the scale's own, but for `schemes`, which is "
        "`[constant]`.\n",
        f"## Of the small-data study\n\n{SMALL_DATA}\n{table(of_small_data)}",
        f"A method has a `kind`, one of {', '.join(f'`{kind}`' for kind in METHODS)}; `particles` and, "
        "where it has a prior, `prior_scales`, lists of which every combination is run; and any option of "
        "`smcda run` or `smcda baseline`. `step_size_at` is the number of images that `step_size` is for: "
        "for others it is rescaled so that h^2 N stays.\n",
    ]
    return "\n".join(sections)


def table(keys: dict[str, Any]) -> str:
    """One row per key."""
    rows = ["| key | allowed | default | meaning |", "| --- | --- | --- | --- |"]
    for name, rule in keys.items():
        default = f"`{json.dumps(rule['default'])}`" if "default" in rule else "required"
        rows.append(f"| `{name}` | {allowed(rule)} | {default} | {rule['description']} |")
    return "\n".join(rows) + "\n"


def allowed(rule: dict[str, Any]) -> str:
    """Which values a schema allows, in words."""
    if "anyOf" in rule:
        return " or ".join(allowed(each) for each in rule["anyOf"])
    if "$ref" in rule:
        return "names and their keys"
    if "enum" in rule:
        return ", ".join(f"`{name}`" for name in rule["enum"])
    if "const" in rule:
        return f"`{rule['const']}`"
    if rule.get("type") == "array":
        return f"list: {allowed(rule['items'])}"
    if "examples" in rule:
        return "such as " + ", ".join(f"`{text}`" for text in rule["examples"])
    bounds = {"minimum": "of at least", "exclusiveMinimum": "above", "maximum": "at most"}
    kinds = {"object": "names and their keys", "string": "text", "boolean": "true, false"}
    words = [f"{word} {rule[name]:.12g}" for name, word in bounds.items() if name in rule]
    return " ".join([kinds.get(rule["type"], rule["type"]), " and ".join(words)]).strip()


FILES = {ROOT / "workflow" / "schemas" / "config.schema.json": schema, ROOT / "docs" / "config.md": page}

if __name__ == "__main__":
    for path, write in FILES.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(write())
