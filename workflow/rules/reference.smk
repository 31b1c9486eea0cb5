"""The reference data (paper/reference): runs at full data, kept with the project. Nothing here samples.

`snakemake reference` builds their summary, tables and figures, which the paper shows. `snakemake compare` compares
them, or the summary that the config names, with the published table.
"""

REFERENCE = {name: PAPER / "reference" / f"{name}.csv" for name in ("runs", "traces", "curvature")}
REFERENCE_TABLES = [
    "versus_published",
    "speedups",
    "comparison",
    "ablations",
    "stability",
    "choice",
    "explanations",
]
REFERENCE_FIGURES = ["cost", "learning_curves"]


# `use rule` does not inherit that a rule is local.
localrules:
    reference_table,
    reference_figure,


rule reference_study:
    input:
        runs=REFERENCE["runs"],
        traces=REFERENCE["traces"],
        published=PUBLISHED,
        source=sources("select_reference.py"),
    output:
        runs=out("reference/runs.csv"),
        traces=out("reference/traces.csv"),
        summary=out("reference/summary.csv"),
    log:
        out("logs/reference/study.log"),
    localrule: True
    message:
        "Summarising the reference data"
    script:
        "../scripts/select_reference.py"


use rule table as reference_table with:
    input:
        **REFERENCE,
        ablations=PAPER / "reference" / "ablations.csv",
        summary=rules.reference_study.output.summary,
        summarised_runs=rules.reference_study.output.runs,
        published=PUBLISHED,
        template=rules.table.input.template,
        source=rules.table.input.source,
    output:
        tex=out("reference/tables/reference_{table}.tex"),
        csv=out("reference/tables/reference_{table}.csv"),
    log:
        out("logs/reference/tables/{table}.log"),
    wildcard_constraints:
        table="|".join(REFERENCE_TABLES),
    params:
        runs=[],  # all published cells, whichever of them were run
    message:
        "Making reference table {wildcards.table}"


use rule figure as reference_figure with:
    input:
        summary=rules.reference_study.output.summary,
        traces=[rules.reference_study.output.traces],
        source=rules.figure.input.source,
        style=rules.figure.input.style,
    output:
        pdf=out("reference/figures/reference_{figure}.pdf"),
        png=out("reference/figures/reference_{figure}.png"),
    log:
        out("logs/reference/{figure}.log"),
    wildcard_constraints:
        figure="|".join(REFERENCE_FIGURES),
    params:
        runs=[],
    message:
        "Drawing {wildcards.figure} of the reference data"


rule reference:
    input:
        tables=expand(rules.reference_table.output.tex, table=REFERENCE_TABLES) + SMALL_OF_PAPER["tables"],
        figures=expand(rules.reference_figure.output.pdf, figure=REFERENCE_FIGURES)
        + SMALL_OF_PAPER["figures"],
        summary=rules.reference_study.output,


rule compare:
    input:
        summary=config["compare"] or rules.reference_study.output.summary,
        published=PUBLISHED,
        source=sources("compare_published.py"),
    log:
        out("logs/compare.log"),
    localrule: True
    params:
        # No output: Snakemake would remove the report of a study that fails.
        report=out("compare.csv"),
    message:
        "Comparing {input.summary} with the published table"
    shell:
        "python workflow/scripts/compare_published.py {input.summary:q}"
        " --csv {params.report:q} 2>&1 | tee {log:q}"
