"""The tables: LaTeX for the paper, and beside each the same numbers as CSV."""

TABLES = {
    "study": "The study, in the published layout",
    "versus_published": "Ours against published",
    "speedups": "Speed-ups over full batch",
}


rule table:
    input:
        summary=rules.summary.output.summary,
        published=WORKFLOW / "resources" / "published_table.csv",
        template=PAPER / "templates" / "{table}.tex.j2",
    output:
        tex=out("tables/{table}.tex"),
        csv=report(
            out("tables/{table}.csv"),
            caption="../report/table.rst",
            category="Tables",
            labels=lambda wildcards: {
                "artefact": TABLES[wildcards.table],
                "kind": "table",
            },
        ),
    log:
        out("logs/tables/{table}.log"),
    wildcard_constraints:
        table="|".join(TABLES),
    params:
        table=lambda wildcards: wildcards.table,
        scale=STUDY.scale,
        schemes=STUDY.settings["schemes"],
        datasets=STUDY.settings["datasets"],
        kernels=STUDY.settings["kernels"],
        source=script_hash("tables.py", "cells.py"),
    message:
        "Setting table {wildcards.table}"
    script:
        "../scripts/tables.py"


rule tables:
    input:
        [expand(path, table=TABLES) for path in rules.table.output],
