"""The figures: one script each, as PDF for the paper and PNG for everything else."""

SMOOTH = "smooth_data_annealing"
METRICS = {"metrics": of_runs(rules.run.output.metrics)}
TRACES = {"traces": of_runs(rules.run.output.trace)}
SUMMARY = {"summary": rules.summary.output.summary}
# Name of the file: script, what it is drawn from, and category and title in the report.
FIGURES = {
    "schedules": ("plot_schedules.py", TRACES, "Schedules", "Data used per iteration"),
    "cost": ("plot_cost.py", SUMMARY, "Results", "Test scores against cost"),
    "learning_curves": (
        "plot_learning_curves.py",
        TRACES,
        "Results",
        "Test scores on the way",
    ),
    "degeneracy": (
        "plot_degeneracy.py",
        TRACES,
        "Diagnostics",
        "Effective sample size",
    ),
    "reliability": (
        "plot_reliability.py",
        METRICS,
        "Diagnostics",
        "Reliability diagrams",
    ),
}
if SMOOTH in STUDY.settings["schemes"]:
    OF_SMOOTH = {"traces": of_runs(rules.run.output.trace, scheme=SMOOTH)}
    FIGURES["beta_traces"] = (
        "plot_beta.py",
        OF_SMOOTH,
        "Schedules",
        "beta of smooth data annealing",
    )


rule figure:
    input:
        unpack(lambda wildcards: FIGURES[wildcards.figure][1]),
        source=lambda wildcards: sources(FIGURES[wildcards.figure][0]),
        style=WORKFLOW / "lib" / "figures.mplstyle",
    output:
        pdf=out("figures/{figure}.pdf"),
        png=report(
            out("figures/{figure}.png"),
            caption="../report/figure.rst",
            category=lambda wildcards: FIGURES[wildcards.figure][2],
            labels=lambda wildcards: {
                "artefact": FIGURES[wildcards.figure][3],
                "kind": "figure",
            },
        ),
    log:
        out("logs/figures/{figure}.log"),
    wildcard_constraints:
        figure="|".join(FIGURES),
    localrule: True
    params:
        script=lambda wildcards: FIGURES[wildcards.figure][0],
        runs=lambda wildcards: STUDY.runs(
            SMOOTH if wildcards.figure == "beta_traces" else None
        ),
    message:
        "Drawing {wildcards.figure}"
    script:
        "../scripts/{params.script}"


rule figures:
    input:
        expand(rules.figure.output, figure=FIGURES),
