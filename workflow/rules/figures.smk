"""The figures: one script each, as PDF for the paper and PNG for everything else."""

SMOOTH = "smooth_data_annealing"
METRICS = {"metrics": of_runs(rules.run.output.metrics)}
TRACES = {"traces": of_runs(rules.run.output.trace)}
OF_SMOOTH = {"traces": of_runs(rules.run.output.trace, scheme=SMOOTH)}
SUMMARY = {"summary": rules.summary.output.summary}
# scripts/plot_<name>.py draws it: from what, and its category in the report. Its title is in report/<name>.rst.
FIGURES = {
    "schedules": (TRACES, "2 Schedules"),
    "beta_traces": (OF_SMOOTH, "2 Schedules"),
    "cost": (SUMMARY, "1 Scores and cost"),
    "learning_curves": (TRACES, "1 Scores and cost"),
    "degeneracy": (TRACES, "3 Diagnostics"),
    "reliability": (METRICS, "3 Diagnostics"),
}
if SMOOTH not in STUDY.settings["schemes"]:
    del FIGURES["beta_traces"]


rule figure:
    input:
        unpack(lambda wildcards: FIGURES[wildcards.figure][0]),
        source=lambda wildcards: sources(f"plot_{wildcards.figure}.py"),
        style=WORKFLOW / "lib" / "figures.mplstyle",
    output:
        pdf=out("figures/{figure}.pdf"),
        png=out("figures/{figure}.png"),
    log:
        out("logs/figures/{figure}.log"),
    wildcard_constraints:
        figure="|".join(FIGURES),
    localrule: True
    params:
        runs=lambda wildcards: STUDY.runs(SMOOTH if wildcards.figure == "beta_traces" else None),
    message:
        "Drawing {wildcards.figure}"
    script:
        "../scripts/plot_{wildcards.figure}.py"


rule figures:
    input:
        expand(rules.figure.output, figure=FIGURES),
