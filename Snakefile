"""From data to the paper: `snakemake --cores all --resources gpu=1`."""

from snakemake.utils import min_version

min_version("9.20")


configfile: "config.yaml"


report: "workflow/report/workflow.rst"


include: "workflow/rules/common.smk"
include: "workflow/rules/data.smk"
include: "workflow/rules/runs.smk"
include: "workflow/rules/summary.smk"
include: "workflow/rules/decisions.smk"
include: "workflow/rules/figures.smk"
include: "workflow/rules/tables.smk"
include: "workflow/rules/measured.smk"
include: "workflow/rules/paper.smk"


# On a cluster only runs become jobs. The rest is light, wants a network (data) or TeX (paper), and a GPU
# partition refuses jobs without a GPU.
localrules:
    all,
    data,
    summary,
    schedules,
    beta_traces,
    cost,
    learning_curves,
    degeneracy,
    reliability,
    figures,
    table,
    tables,
    numbers,
    measured_table,
    measured_decisions,
    measured_cost,
    measured_learning_curves,
    measured,
    verify,
    paper,


rule all:
    default_target: True
    input:
        rules.summary.output,
        rules.figures.input,
        rules.tables.input,
        PAPER_IF_TEX,


onstart:
    keep_others_out()


onerror:
    summarise_what_is_there()
