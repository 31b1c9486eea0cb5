"""The figures: one script each, as PDF for the paper and PNG for everything else."""

FIGURES = ["schedules", "cost", "learning_curves", "degeneracy", "reliability"]
SMOOTH = "smooth_data_annealing"
if SMOOTH in STUDY.settings["schemes"]:
    FIGURES.append("beta_traces")


localrules:
    schedules,
    cost,
    learning_curves,
    degeneracy,
    reliability,
    beta_traces,


def figure(name, category, title):
    """Both files of a figure; the report shows the PNG."""
    caption, labels = f"../report/{name}.rst", {"artefact": title, "kind": "figure"}
    png = out(f"figures/{name}.png")
    return {
        "pdf": out(f"figures/{name}.pdf"),
        "png": report(png, caption=caption, category=category, labels=labels),
    }


rule schedules:
    input:
        traces=of_runs(rules.run.output.trace),
        source=sources("plot_schedules.py"),
    output:
        **figure(
            "schedules", "Schedules", "Data used per iteration, one panel per scheme"
        ),
    log:
        out("logs/figures/schedules.log"),
    params:
        runs=STUDY.runs(),
    message:
        "Drawing schedules"
    script:
        "../scripts/plot_schedules.py"


rule cost:
    input:
        summary=rules.summary.output.summary,
        source=sources("plot_cost.py"),
    output:
        **figure("cost", "Results", "Test accuracy and log-likelihood against cost"),
    log:
        out("logs/figures/cost.log"),
    message:
        "Drawing cost"
    script:
        "../scripts/plot_cost.py"


rule learning_curves:
    input:
        traces=of_runs(rules.run.output.trace),
        source=sources("plot_learning_curves.py"),
    output:
        **figure(
            "learning_curves", "Results", "Test scores against gradient evaluations"
        ),
    log:
        out("logs/figures/learning_curves.log"),
    params:
        runs=STUDY.runs(),
    message:
        "Drawing learning curves"
    script:
        "../scripts/plot_learning_curves.py"


rule degeneracy:
    input:
        traces=of_runs(rules.run.output.trace),
        source=sources("plot_degeneracy.py"),
    output:
        **figure(
            "degeneracy", "Diagnostics", "Effective sample size and unique ancestors"
        ),
    log:
        out("logs/figures/degeneracy.log"),
    params:
        runs=STUDY.runs(),
    message:
        "Drawing degeneracy"
    script:
        "../scripts/plot_degeneracy.py"


rule reliability:
    input:
        metrics=of_runs(rules.run.output.metrics),
        source=sources("plot_reliability.py"),
    output:
        **figure("reliability", "Diagnostics", "Reliability diagrams"),
    log:
        out("logs/figures/reliability.log"),
    params:
        runs=STUDY.runs(),
    message:
        "Drawing reliability"
    script:
        "../scripts/plot_reliability.py"


rule beta_traces:
    input:
        traces=of_runs(rules.run.output.trace, scheme=SMOOTH),
        source=sources("plot_beta.py"),
    output:
        **figure(
            "beta_traces", "Schedules", "beta and minibatches of smooth data annealing"
        ),
    log:
        out("logs/figures/beta_traces.log"),
    params:
        runs=STUDY.runs(SMOOTH),
    message:
        "Drawing beta traces"
    script:
        "../scripts/plot_beta.py"


rule figures:
    input:
        [getattr(rules, name).output for name in FIGURES],
