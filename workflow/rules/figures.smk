"""The figures: one script each, as PDF for the paper and PNG for everything else."""

FIGURES = ["schedules", "cost", "learning_curves", "degeneracy", "reliability"]
if "smooth_data_annealing" in STUDY.settings["schemes"]:
    FIGURES.append("beta_traces")


rule schedules:
    input:
        traces=of_all_runs(rules.run.output.trace),
    output:
        pdf=out("figures/schedules.pdf"),
        png=report(
            out("figures/schedules.png"),
            caption="../report/schedules.rst",
            category="Schedules",
            labels={
                "artefact": "How much data each iteration uses, one panel a scheme",
                "kind": "figure",
            },
        ),
    log:
        out("logs/figures/schedules.log"),
    benchmark:
        out("benchmarks/figures/schedules.tsv")
    params:
        runs=STUDY.runs(),
        source=script_hash("schedules.py", "figure_style.py"),
    message:
        "Drawing schedules"
    script:
        "../scripts/schedules.py"


rule beta_traces:
    input:
        traces=of_all_runs(rules.run.output.trace, "smooth_data_annealing"),
    output:
        pdf=out("figures/beta_traces.pdf"),
        png=report(
            out("figures/beta_traces.png"),
            caption="../report/beta_traces.rst",
            category="Schedules",
            labels={
                "artefact": "beta and minibatches of smooth data annealing over iterations",
                "kind": "figure",
            },
        ),
    log:
        out("logs/figures/beta_traces.log"),
    benchmark:
        out("benchmarks/figures/beta_traces.tsv")
    params:
        runs=STUDY.runs("smooth_data_annealing"),
        source=script_hash("beta_traces.py", "figure_style.py"),
    message:
        "Drawing beta traces"
    script:
        "../scripts/beta_traces.py"


rule cost:
    input:
        summary=rules.summary.output.summary,
    output:
        pdf=out("figures/cost.pdf"),
        png=report(
            out("figures/cost.png"),
            caption="../report/cost.rst",
            category="Results",
            labels={
                "artefact": "Test accuracy and log-likelihood against cost",
                "kind": "figure",
            },
        ),
    log:
        out("logs/figures/cost.log"),
    benchmark:
        out("benchmarks/figures/cost.tsv")
    params:
        source=script_hash("cost.py", "figure_style.py"),
    message:
        "Drawing cost"
    script:
        "../scripts/cost.py"


rule learning_curves:
    input:
        traces=of_all_runs(rules.run.output.trace),
    output:
        pdf=out("figures/learning_curves.pdf"),
        png=report(
            out("figures/learning_curves.png"),
            caption="../report/learning_curves.rst",
            category="Results",
            labels={
                "artefact": "Test scores on the way against gradient evaluations",
                "kind": "figure",
            },
        ),
    log:
        out("logs/figures/learning_curves.log"),
    benchmark:
        out("benchmarks/figures/learning_curves.tsv")
    params:
        runs=STUDY.runs(),
        source=script_hash("learning_curves.py", "figure_style.py"),
    message:
        "Drawing learning curves"
    script:
        "../scripts/learning_curves.py"


rule degeneracy:
    input:
        traces=of_all_runs(rules.run.output.trace),
    output:
        pdf=out("figures/degeneracy.pdf"),
        png=report(
            out("figures/degeneracy.png"),
            caption="../report/degeneracy.rst",
            category="Diagnostics",
            labels={
                "artefact": "Effective sample size and unique ancestors over iterations",
                "kind": "figure",
            },
        ),
    log:
        out("logs/figures/degeneracy.log"),
    benchmark:
        out("benchmarks/figures/degeneracy.tsv")
    params:
        runs=STUDY.runs(),
        source=script_hash("degeneracy.py", "figure_style.py"),
    message:
        "Drawing degeneracy"
    script:
        "../scripts/degeneracy.py"


rule reliability:
    input:
        metrics=of_all_runs(rules.run.output.metrics),
    output:
        pdf=out("figures/reliability.pdf"),
        png=report(
            out("figures/reliability.png"),
            caption="../report/reliability.rst",
            category="Diagnostics",
            labels={"artefact": "Reliability diagrams", "kind": "figure"},
        ),
    log:
        out("logs/figures/reliability.log"),
    benchmark:
        out("benchmarks/figures/reliability.tsv")
    params:
        runs=STUDY.runs(),
        source=script_hash("reliability.py", "figure_style.py"),
    message:
        "Drawing reliability"
    script:
        "../scripts/reliability.py"


rule figures:
    input:
        [getattr(rules, name).output for name in FIGURES],
