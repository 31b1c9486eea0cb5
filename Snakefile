"""From data to the paper: `snakemake --cores all --resources gpu=1`."""

from snakemake.utils import min_version

min_version("9.20")


configfile: "config.yaml"


report: "workflow/report/workflow.rst"


include: "workflow/rules/common.smk"
include: "workflow/rules/data.smk"
include: "workflow/rules/run.smk"
include: "workflow/rules/aggregate.smk"
include: "workflow/rules/ablations.smk"
include: "workflow/rules/figures.smk"
include: "workflow/rules/tables.smk"
include: "workflow/rules/small_data.smk"
include: "workflow/rules/reference.smk"
include: "workflow/rules/paper.smk"
include: "workflow/rules/report.smk"


rule all:
    default_target: True
    input:
        rules.summary.output,
        rules.figures.input,
        rules.tables.input,
        PAPER_IF_TEX,
        rules.pages.output,
        rules.headlines.output,


onstart:
    keep_others_out()
    keep_finished()
    write_plan()
