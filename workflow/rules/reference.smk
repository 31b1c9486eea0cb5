"""What was measured at full data and is kept with the project (paper/measured), without sampling anything.

`snakemake measured` draws and sets it; the paper shows it. `snakemake verify` holds it, or the summary that
the config names, against the published table.
"""

from cells import read_cells

MEASURED = PAPER / "measured"
PUBLISHED = WORKFLOW / "resources" / "published_table.csv"
PUBLISHED_CELLS = list(read_cells(PUBLISHED))
# Nothing has to be there: without it the paper leaves the section out.
HAS_MEASURED = (MEASURED / "summary.csv").exists()
HAS_DECISIONS = (MEASURED / "decisions.csv").exists()
MEASURED_INPUTS = {}
if HAS_MEASURED:
    MEASURED_INPUTS = {
        "measured_runs": MEASURED / "runs.csv",
        "measured_summary": MEASURED / "summary.csv",
    }
    OPTIONAL = {
        "traces": MEASURED / "traces.csv",
        "decisions": MEASURED / "decisions.csv",
        "curvature": MEASURED / "curvature.csv",
        "fan_in_prior": MEASURED / "fan_in_prior" / "summary.csv",
        "fan_in_curvature": MEASURED / "fan_in_prior" / "curvature.csv",
    }
    MEASURED_INPUTS |= {name: file for name, file in OPTIONAL.items() if file.exists()}


use rule table as measured_table with:
    input:
        summary=MEASURED / "summary.csv",
        published=PUBLISHED,
        template=rules.table.input.template,
    output:
        tex=out("measured/tables/measured_{table}.tex"),
        csv=out("measured/tables/measured_{table}.csv"),
    log:
        out("logs/measured/tables/measured_{table}.log"),
    params:
        table=lambda wildcards: wildcards.table,
        scale="measured",
        schemes=list(dict.fromkeys(scheme for _, scheme, _ in PUBLISHED_CELLS)),
        datasets=list(dict.fromkeys(dataset for dataset, _, _ in PUBLISHED_CELLS)),
        kernels=list(dict.fromkeys(kernel for _, _, kernel in PUBLISHED_CELLS)),
        source=script_hash("tables.py", "cells.py"),
    message:
        "Setting measured table {wildcards.table}"


rule measured_decisions:
    input:
        decisions=MEASURED / "decisions.csv",
        published=PUBLISHED,
        template=PAPER / "templates" / "decisions.tex.j2",
    output:
        tex=out("measured/tables/measured_decisions.tex"),
    log:
        out("logs/measured/tables/measured_decisions.log"),
    params:
        source=script_hash("decisions.py", "cells.py"),
    message:
        "Setting the table of decisions"
    script:
        "../scripts/decisions.py"


use rule cost as measured_cost with:
    input:
        summary=MEASURED / "summary.csv",
    output:
        pdf=out("measured/figures/measured_cost.pdf"),
        png=out("measured/figures/measured_cost.png"),
    log:
        out("logs/measured/cost.log"),
    benchmark:
        out("benchmarks/measured/cost.tsv")
    message:
        "Drawing measured cost"


use rule learning_curves as measured_learning_curves with:
    input:
        table=MEASURED / "traces.csv",
    output:
        pdf=out("measured/figures/measured_learning_curves.pdf"),
        png=out("measured/figures/measured_learning_curves.png"),
    log:
        out("logs/measured/learning_curves.log"),
    benchmark:
        out("benchmarks/measured/learning_curves.tsv")
    message:
        "Drawing measured learning curves"


MEASURED_TABLES = expand(rules.measured_table.output.tex, table=TABLES) * HAS_MEASURED
MEASURED_TABLES += rules.measured_decisions.output * HAS_DECISIONS
MEASURED_FIGURES = [
    rules.measured_cost.output.pdf,
    rules.measured_learning_curves.output.pdf,
] * HAS_MEASURED


rule measured:
    input:
        MEASURED_TABLES,
        MEASURED_FIGURES,


rule verify:
    input:
        summary=config["verify"],
        published=PUBLISHED,
    log:
        out("logs/verify.log"),
    params:
        # No output: Snakemake would remove the report of a study that fails.
        report=out("verify.csv"),
    message:
        "Holding {input.summary} against the published table"
    shell:
        "python workflow/scripts/verify.py {input.summary} --published {input.published}"
        " --csv {params.report} | tee {log}"
