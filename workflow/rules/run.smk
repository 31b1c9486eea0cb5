"""One sampling run for every dataset x scheme x kernel x seed.

A run asks for a GPU only where the config does; on a CPU it takes one core, and Snakemake starts as
many at once as there are. Run time and memory are asked for by the cost model: a scheduler that is told
how long a run takes starts the short ones sooner. Checkpoints are no output of the rule, because
Snakemake removes outputs before a rerun; a run that was stopped goes on from them and removes them when it
is done. How often they are saved is no param but a resource: no result depends on it, and a change must
rerun nothing.
"""

import cost_model

from smcda.run.fingerprint import numeric_sources

SAMPLER = numeric_sources()
ON_CPU = STUDY.settings["device"] == "cpu"


rule run:
    input:
        data=rules.data.output.data,
    output:
        metrics=out("runs/{dataset}/{scheme}/{kernel}/seed-{seed}/metrics.json"),
        trace=out("runs/{dataset}/{scheme}/{kernel}/seed-{seed}/trace.csv"),
    log:
        out("logs/runs/{dataset}/{scheme}/{kernel}/seed-{seed}.log"),
    benchmark:
        out("benchmarks/runs/{dataset}/{scheme}/{kernel}/seed-{seed}.tsv")
    threads: 1
    resources:
        gpu=0 if ON_CPU else 1,
        runtime=lambda wildcards, attempt: cost_model.runtime_minutes(
            STUDY.settings, wildcards.scheme, wildcards.kernel, attempt
        ),
        mem_mb=lambda wildcards, attempt: cost_model.memory_mb(STUDY.settings, attempt),
        checkpoint_every=str(config["checkpoint_every"]),
    params:
        network=lambda wildcards: NETWORKS[wildcards.dataset],
        options=lambda wildcards: STUDY.run_options(
            NETWORKS[wildcards.dataset], wildcards.scheme, wildcards.kernel
        ),
        device=STUDY.settings["device"] + (" --threads 1" if ON_CPU else ""),
        cache=config["compilation_cache"],
        checkpoints=out("checkpoints"),
        sampler=SAMPLER,
    message:
        "Sampling {wildcards.dataset}, {wildcards.scheme}, {wildcards.kernel}, seed {wildcards.seed}"
    shell:
        "smcda run --data {input.data} --network {params.network} --scheme {wildcards.scheme}"
        " --kernel {wildcards.kernel} --seed {wildcards.seed} --out $(dirname {output.metrics})"
        " {params.options} --device {params.device} --compilation-cache {params.cache}"
        " --checkpoint-dir {params.checkpoints} --checkpoint-every {resources.checkpoint_every}"
        " --overwrite > {log} 2>&1"
