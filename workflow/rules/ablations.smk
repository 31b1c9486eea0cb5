"""Ablations: the config's named overrides, run by the rule that makes every run, and the curvature along a run.

Asked for by name only: `snakemake ablations --config scale=cpu`, likewise `curvatures`. The runs that they are
compared with are the study's own (`snakemake summary`).
"""

ABLATIONS = STUDY.ablations()


localrules:
    ablations,


rule ablations:
    input:
        metrics=[
            file
            for ablation in ABLATIONS
            for file in of_runs(rules.run.output.metrics, ablation)
        ],
        source=sources("summarise.py"),
    output:
        runs=out("ablations.csv"),
    log:
        out("logs/ablations.log"),
    params:
        runs=[
            run | {"ablation": ablation.ablation}
            for ablation in ABLATIONS
            for run in ablation.runs()
        ],
    message:
        "Collecting the ablations"
    script:
        "../scripts/summarise.py"


rule curvature:
    input:
        data=rules.data.output.data,
        source=sources("measure_curvature.py"),
    output:
        csv=out("curvature/{dataset}/{kernel}/seed-{seed}.csv"),
    log:
        out("logs/curvature/{dataset}/{kernel}/seed-{seed}.log"),
    threads: 1
    resources:
        gpu=asks_for("gpu"),
        runtime=asks_for("runtime"),
        mem_mb=asks_for("mem_mb"),
    params:
        network=lambda wildcards: NETWORKS[wildcards.dataset],
        options=lambda wildcards: STUDY.run_options(
            wildcards.dataset, "constant", wildcards.kernel
        ),
        device=STUDY.device_options(),
        numerics=NUMERICS,
    message:
        "Following the curvature: {wildcards.dataset}, {wildcards.kernel}, seed {wildcards.seed}"
    shell:
        "python workflow/scripts/measure_curvature.py --data {input.data:q} --network {params.network}"
        " --scheme constant --kernel {wildcards.kernel} --seed {wildcards.seed} {params.options}"
        " {params.device} --compilation-cache {config[compilation_cache]:q} --out {output.csv:q} 2> {log:q}"


rule curvatures:
    input:
        expand(
            rules.curvature.output,
            dataset=STUDY.settings["datasets"],
            kernel=STUDY.settings["kernels"],
            seed=STUDY.settings["seeds"],
        ),
