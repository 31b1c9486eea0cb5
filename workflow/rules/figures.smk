"""The figures: one script each, as PDF for the paper and PNG for everything else."""

SMOOTH = "smooth_data_annealing"
# Name of the file: script, and category and title in the report.
FIGURES = {
    "schedules": ("plot_schedules.py", "Schedules", "Data used per iteration"),
    "cost": ("plot_cost.py", "Results", "Test scores against cost"),
    "learning_curves": ("plot_learning_curves.py", "Results", "Test scores on the way"),
    "degeneracy": ("plot_degeneracy.py", "Diagnostics", "Effective sample size"),
    "reliability": ("plot_reliability.py", "Diagnostics", "Reliability diagrams"),
    "beta_traces": ("plot_beta.py", "Schedules", "beta of smooth data annealing"),
}
if SMOOTH not in STUDY.settings["schemes"]:
    del FIGURES["beta_traces"]


def figure_inputs(wildcards):
    """What a figure is drawn from: the summary, or a file of every run."""
    if wildcards.figure == "cost":
        return {"summary": rules.summary.output.summary}
    if wildcards.figure == "reliability":
        return {"metrics": of_runs(rules.run.output.metrics)}
    return {"traces": of_runs(rules.run.output.trace, scheme=figure_scheme(wildcards))}


def figure_scheme(wildcards):
    """The scheme that a figure is restricted to, or None."""
    return SMOOTH if wildcards.figure == "beta_traces" else None


rule figure:
    input:
        unpack(figure_inputs),
        source=lambda wildcards: sources(FIGURES[wildcards.figure][0]),
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
        script=lambda wildcards: FIGURES[wildcards.figure][0],
        runs=lambda wildcards: STUDY.runs(figure_scheme(wildcards)),
    message:
        "Drawing {wildcards.figure}"
    script:
        "../scripts/{params.script}"


rule figures:
    input:
        expand(rules.figure.output, figure=FIGURES),
