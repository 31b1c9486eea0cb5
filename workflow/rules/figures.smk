"""The figures: one script each, as PDF for the paper and PNG for everything else."""


FIGURES = ["schedules", "cost", "learning_curves", "degeneracy", "reliability"]
if "smooth_data_annealing" in STUDY.settings["schemes"]:
    FIGURES.append("beta_traces")


def sda_traces():
    """Traces of smooth data annealing, where the study has it."""
    return [
        rules.run.output.trace.format(**run)
        for run in STUDY.runs()
        if run["scheme"] == "smooth_data_annealing"
    ]


rule schedules:
    input:
        traces=of_all_runs(rules.run.output.trace),
    output:
        pdf=OUT + "/figures/schedules.pdf",
        png=report(
            OUT + "/figures/schedules.png",
            caption="../report/schedules.rst",
            category="Schedules",
            labels={"artefact": "How much data each iteration uses, one panel a scheme", "kind": "figure"},
        ),
    params:
        runs=STUDY.runs(),
        source=script_hash("schedules.py", "figure_style.py"),
    log:
        OUT + "/logs/figures/schedules.log",
    benchmark:
        OUT + "/benchmarks/figures/schedules.tsv"
    message:
        "Drawing schedules"
    script:
        "../scripts/schedules.py"


rule beta_traces:
    input:
        traces=sda_traces(),
    output:
        pdf=OUT + "/figures/beta_traces.pdf",
        png=report(
            OUT + "/figures/beta_traces.png",
            caption="../report/beta_traces.rst",
            category="Schedules",
            labels={"artefact": "beta and minibatches of smooth data annealing over iterations", "kind": "figure"},
        ),
    params:
        runs=[run for run in STUDY.runs() if run["scheme"] == "smooth_data_annealing"],
        source=script_hash("beta_traces.py", "figure_style.py"),
    log:
        OUT + "/logs/figures/beta_traces.log",
    benchmark:
        OUT + "/benchmarks/figures/beta_traces.tsv"
    message:
        "Drawing beta traces"
    script:
        "../scripts/beta_traces.py"


rule cost:
    input:
        summary=rules.summary.output.summary,
    output:
        pdf=OUT + "/figures/cost.pdf",
        png=report(
            OUT + "/figures/cost.png",
            caption="../report/cost.rst",
            category="Results",
            labels={"artefact": "Test accuracy and log-likelihood against cost", "kind": "figure"},
        ),
    params:
        source=script_hash("cost.py", "figure_style.py"),
    log:
        OUT + "/logs/figures/cost.log",
    benchmark:
        OUT + "/benchmarks/figures/cost.tsv"
    message:
        "Drawing cost"
    script:
        "../scripts/cost.py"


rule learning_curves:
    input:
        traces=of_all_runs(rules.run.output.trace),
    output:
        pdf=OUT + "/figures/learning_curves.pdf",
        png=report(
            OUT + "/figures/learning_curves.png",
            caption="../report/learning_curves.rst",
            category="Results",
            labels={"artefact": "Test scores on the way against gradient evaluations", "kind": "figure"},
        ),
    params:
        runs=STUDY.runs(),
        source=script_hash("learning_curves.py", "figure_style.py"),
    log:
        OUT + "/logs/figures/learning_curves.log",
    benchmark:
        OUT + "/benchmarks/figures/learning_curves.tsv"
    message:
        "Drawing learning curves"
    script:
        "../scripts/learning_curves.py"


rule degeneracy:
    input:
        traces=of_all_runs(rules.run.output.trace),
    output:
        pdf=OUT + "/figures/degeneracy.pdf",
        png=report(
            OUT + "/figures/degeneracy.png",
            caption="../report/degeneracy.rst",
            category="Diagnostics",
            labels={"artefact": "Effective sample size and unique ancestors over iterations", "kind": "figure"},
        ),
    params:
        runs=STUDY.runs(),
        source=script_hash("degeneracy.py", "figure_style.py"),
    log:
        OUT + "/logs/figures/degeneracy.log",
    benchmark:
        OUT + "/benchmarks/figures/degeneracy.tsv"
    message:
        "Drawing degeneracy"
    script:
        "../scripts/degeneracy.py"


rule reliability:
    input:
        metrics=of_all_runs(rules.run.output.metrics),
    output:
        pdf=OUT + "/figures/reliability.pdf",
        png=report(
            OUT + "/figures/reliability.png",
            caption="../report/reliability.rst",
            category="Diagnostics",
            labels={"artefact": "Reliability diagrams", "kind": "figure"},
        ),
    params:
        runs=STUDY.runs(),
        source=script_hash("reliability.py", "figure_style.py"),
    log:
        OUT + "/logs/figures/reliability.log",
    benchmark:
        OUT + "/benchmarks/figures/reliability.tsv"
    message:
        "Drawing reliability"
    script:
        "../scripts/reliability.py"


rule figures:
    input:
        [getattr(rules, name).output for name in FIGURES],
