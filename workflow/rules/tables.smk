"""The tables: LaTeX for the paper, and beside each the same numbers as CSV."""

import yaml

PUBLISHED = WORKFLOW / "resources" / "published_table.csv"
PUBLISHED_SETTINGS = WORKFLOW / "resources" / "published_settings.yaml"
# Datasets that can be compared with the published table.
AS_PUBLISHED = STUDY.datasets_as_published(yaml.safe_load(PUBLISHED_SETTINGS.read_text()))
TABLES = ["study", "speedups"] + ["versus_published"] * bool(AS_PUBLISHED)


rule table:
    input:
        summary=rules.summary.output.summary,
        # Seconds are compared with the published ones only where the settings are theirs.
        published=PUBLISHED if AS_PUBLISHED else [],
        template=PAPER / "templates" / "{table}.tex.j2",
        source=sources("make_table.py"),
    output:
        tex=out("tables/{table}.tex"),
        csv=out("tables/{table}.csv"),
    log:
        out("logs/tables/{table}.log"),
    wildcard_constraints:
        table="|".join(TABLES),
    localrule: True
    params:
        runs=lambda wildcards: [
            run
            for run in STUDY.runs()
            if wildcards.table != "versus_published" or run["dataset"] in AS_PUBLISHED
        ],
    message:
        "Making table {wildcards.table}"
    script:
        "../scripts/make_table.py"


rule tables:
    input:
        expand(rules.table.output, table=TABLES),
