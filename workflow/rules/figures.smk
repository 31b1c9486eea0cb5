"""The figures: one script each, as PDF for the paper and PNG for everything else."""

SMOOTH = "smooth_data_annealing"
METRICS = {"metrics": of_runs(rules.run.output.metrics)}
TRACES = {"traces": of_runs(rules.run.output.trace)}
OF_SMOOTH = {"traces": of_runs(rules.run.output.trace, scheme=SMOOTH)}
SUMMARY = {"summary": rules.summary.output.summary}
# scripts/plot_<name>.py draws it: from what, and its category and title in the report.
FIGURES = {
    "schedules": (TRACES, "Schedules", "Data used per iteration"),
    "beta_traces": (OF_SMOOTH, "Schedules", "beta of smooth data annealing"),
    "cost": (SUMMARY, "Results", "Test scores against cost"),
    "learning_curves": (TRACES, "Results", "Test scores on the way"),
    "degeneracy": (TRACES, "Diagnostics", "Effective sample size"),
    "reliability": (METRICS, "Diagnostics", "Reliability diagrams"),
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
        png=report(
            out("figures/{figure}.png"),
            caption="../report/figure.rst",
            category=lambda wildcards: FIGURES[wildcards.figure][1],
            labels=lambda wildcards: {
                "artefact": FIGURES[wildcards.figure][2],
                "kind": "figure",
            },
        ),
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
