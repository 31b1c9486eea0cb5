"""Ablations: the config's named overrides, run by the rule that makes every run, and the curvature along a run.

Asked for by name only: `snakemake ablations --config scale=cpu`, likewise `curvatures`. The runs that they are
compared with are the study's own (`snakemake summary`).
"""

ABLATIONS = STUDY.ablations()


rule ablations:
    input:
        metrics=of_runs(rules.run.output.metrics, ABLATIONS),
        source=sources("summarise.py"),
    output:
        runs=out("ablations.csv"),
        record=out("ablations.json"),
    log:
        out("logs/ablations.log"),
    localrule: True
    params:
        runs=[run for each in ABLATIONS for run in each.runs()],
        record={each.path: each.record(NUMERICS) for each in ABLATIONS},
    message:
        "Collecting the ablations"
    script:
        "../scripts/summarise.py"


rule curvature:
    input:
        data=data_of,
        model=model_of,
        source=sources("measure_curvature.py"),
    output:
        csv=out("curvature/{dataset}/{kernel}/seed-{seed}.csv"),
    log:
        out("logs/curvature/{dataset}/{kernel}/seed-{seed}.log"),
    threads: 1
    resources:
        **RESOURCES,
    params:
        options=lambda wildcards: STUDY.run_options(wildcards.dataset, "constant", wildcards.kernel),
        device=STUDY.device_options(),
        numerics=NUMERICS,
    message:
        "Following the curvature: {wildcards.dataset}, {wildcards.kernel}, seed {wildcards.seed}"
    script:
        "../scripts/measure_curvature.py"


rule curvatures:
    input:
        expand(
            rules.curvature.output,
            dataset=STUDY.settings["datasets"],
            kernel=STUDY.settings["kernels"],
            seed=STUDY.settings["seeds"],
        ),
