"""The small-data study: `snakemake small_data`, from bundled images, the same whatever the scale.

A run's folder names its cell, and its command reads nothing else, so a grid may grow on the command line and
finished runs stay. `tools/archive_small_data.py` keeps rows with the project, `paper/reference/small_data.csv`,
from which `snakemake reference` makes the paper's tables and figures.
"""

SMALL = SMALL_STUDY.folder
KEPT_SMALL = PAPER / "reference" / "small_data.csv"
SMALL_FIGURES = {
    "small_data_scores": "Test scores against training images",
    "small_data_evidence": "Log evidence and test log-likelihood against the prior's scale",
    "small_data_cost": "Test scores against gradient evaluations",
}
SMALL_TABLES = {
    "small_data_scores": "Test scores",
    "small_data_calibration": "Calibration and foreign images",
    "small_data_versus": "Against the deep ensemble",
    "small_data_health": "Whether weights are alive",
}


# `use rule` does not inherit that a rule is local.
localrules:
    small_data_figure,
    kept_small_data_table,
    kept_small_data_figure,


rule small_data_images:
    input:
        images="smcda/data/bundled/{dataset}.npz",
        source=["smcda/data/dataset.py", "smcda/data/mnist.py"],
    output:
        data=f"{SMALL}/data/{{dataset}}-{{n_train}}.npz",
    log:
        f"{SMALL}/logs/data/{{dataset}}-{{n_train}}.log",
    wildcard_constraints:
        dataset="|".join(FOREIGN),
        n_train="[0-9]+",
    localrule: True
    params:
        n_test=SMALL_STUDY.grid.test_images,
    message:
        "Preparing {wildcards.n_train} images of {wildcards.dataset}"
    shell:
        "smcda data {wildcards.dataset} --bundled --train {wildcards.n_train} --test {params.n_test}"
        " --out {output.data:q} 2> {log:q}"


rule small_data_smc:
    input:
        data=lambda wildcards: SMALL_STUDY.images(wildcards.cell),
        ood=lambda wildcards: SMALL_STUDY.images(wildcards.cell, foreign=True),
    output:
        metrics=f"{SMALL}/runs/{{cell}}/metrics.json",
        trace=f"{SMALL}/runs/{{cell}}/trace.csv",
    log:
        f"{SMALL}/logs/{{cell}}.log",
    benchmark:
        f"{SMALL}/benchmarks/{{cell}}.tsv"
    wildcard_constraints:
        cell=SMALL_STUDY.pattern(of_smc=True),
    threads: 1
    resources:
        **SMALL_RESOURCES,
    params:
        command=lambda wildcards: SMALL_STUDY.command(wildcards.cell),
        device=SMALL_STUDY.device_options(),
        folder=lambda wildcards, output: str(Path(output.metrics).parent),
        checkpoints=f"{SMALL}/checkpoints",
        numerics=NUMERICS,
    message:
        "Small data: {wildcards.cell}"
    shell:
        "smcda {params.command} --data {input.data:q} --ood {input.ood:q} --out {params.folder:q}"
        " {params.device} --compilation-cache {config[compilation_cache]:q}"
        " --checkpoint-dir {params.checkpoints:q} --checkpoint-every {config[checkpoint_every]}"
        " --overwrite > {log:q} 2>&1"


# Has no checkpoints.
rule small_data_baseline:
    input:
        data=lambda wildcards: SMALL_STUDY.images(wildcards.cell),
        ood=lambda wildcards: SMALL_STUDY.images(wildcards.cell, foreign=True),
    output:
        metrics=f"{SMALL}/runs/{{cell}}/metrics.json",
        trace=f"{SMALL}/runs/{{cell}}/trace.csv",
    log:
        f"{SMALL}/logs/{{cell}}.log",
    benchmark:
        f"{SMALL}/benchmarks/{{cell}}.tsv"
    wildcard_constraints:
        cell=SMALL_STUDY.pattern(of_smc=False),
    threads: 1
    resources:
        **SMALL_RESOURCES,
    params:
        command=lambda wildcards: SMALL_STUDY.command(wildcards.cell),
        device=SMALL_STUDY.device_options(),
        folder=lambda wildcards, output: str(Path(output.metrics).parent),
        numerics=numeric_sources("baselines"),
    message:
        "Small data: {wildcards.cell}"
    shell:
        "smcda {params.command} --data {input.data:q} --ood {input.ood:q} --out {params.folder:q}"
        " {params.device} --compilation-cache {config[compilation_cache]:q} --overwrite > {log:q} 2>&1"


rule small_data_runs:
    input:
        metrics=[f"{SMALL}/runs/{path}/metrics.json" for path in SMALL_STUDY.by_path],
        traces=[f"{SMALL}/runs/{path}/trace.csv" for path in SMALL_STUDY.by_path],
        source=sources("build_small_data.py"),
    output:
        runs=f"{SMALL}/small_data.csv",
    log:
        f"{SMALL}/logs/small_data.log",
    localrule: True
    params:
        methods=[cell.method for cell in SMALL_STUDY.by_path.values()],
    message:
        "Collecting the small-data study"
    script:
        "../scripts/build_small_data.py"


rule small_data_table:
    input:
        runs=rules.small_data_runs.output.runs,
        template=PAPER / "templates" / "{table}.tex.j2",
        source=sources("make_small_data_table.py"),
    output:
        tex=f"{SMALL}/tables/{{table}}.tex",
        csv=f"{SMALL}/tables/{{table}}.csv",
    log:
        f"{SMALL}/logs/tables/{{table}}.log",
    wildcard_constraints:
        table="|".join(SMALL_TABLES),
    localrule: True
    message:
        "Making table {wildcards.table}"
    script:
        "../scripts/make_small_data_table.py"


use rule figure as small_data_figure with:
    input:
        runs=rules.small_data_runs.output.runs,
        source=rules.figure.input.source,
        style=rules.figure.input.style,
    output:
        pdf=f"{SMALL}/figures/{{figure}}.pdf",
        png=f"{SMALL}/figures/{{figure}}.png",
    log:
        f"{SMALL}/logs/figures/{{figure}}.log",
    wildcard_constraints:
        figure="|".join(SMALL_FIGURES),
    params:
        runs=[],


rule small_data:
    input:
        rules.small_data_runs.output,
        expand(rules.small_data_table.output, table=SMALL_TABLES),
        expand(rules.small_data_figure.output, figure=SMALL_FIGURES),


use rule small_data_table as kept_small_data_table with:
    input:
        runs=KEPT_SMALL,
        template=rules.small_data_table.input.template,
        source=rules.small_data_table.input.source,
    output:
        tex=out("reference/tables/{table}.tex"),
        csv=out("reference/tables/{table}.csv"),
    log:
        out("logs/reference/tables/{table}.log"),


use rule small_data_figure as kept_small_data_figure with:
    input:
        runs=KEPT_SMALL,
        source=rules.figure.input.source,
        style=rules.figure.input.style,
    output:
        pdf=out("reference/figures/{figure}.pdf"),
        png=out("reference/figures/{figure}.png"),
    log:
        out("logs/reference/{figure}.log"),


# The paper leaves the section out as long as nothing is kept.
HAS_SMALL = len(KEPT_SMALL.read_text().splitlines()) > 1
SMALL_OF_PAPER = {
    "tables": expand(rules.kept_small_data_table.output.tex, table=SMALL_TABLES) * HAS_SMALL,
    "figures": expand(rules.kept_small_data_figure.output.pdf, figure=SMALL_FIGURES) * HAS_SMALL,
}
