"""One sampling run for every dataset x scheme x kernel x seed, of the study and of its ablations.

A run asks for a GPU only where the config does; on a CPU it takes one core, and Snakemake starts as
many at once as there are. Run time and memory are asked for by the cost model: a scheduler that knows
how long a run takes starts the short ones sooner. Checkpoints are no output of the rule, because
Snakemake removes outputs before a rerun; a run that was stopped resumes from them and removes them when it
is done. A user's own data and the file of their model are inputs: a model that was edited is run again. What no
result depends on (how often checkpoints are saved, where compiled programs are cached) is read from the config
and is no param, so that changing it reruns nothing.
"""

from smcda.runs.fingerprint import numeric_sources

NUMERICS = numeric_sources()


rule run:
    input:
        data=data_of,
        model=model_of,
    output:
        metrics=out("{study}/{dataset}/{scheme}/{kernel}/seed-{seed}/metrics.json"),
        trace=out("{study}/{dataset}/{scheme}/{kernel}/seed-{seed}/trace.csv"),
    log:
        out("logs/{study}/{dataset}/{scheme}/{kernel}/seed-{seed}.log"),
    benchmark:
        out("benchmarks/{study}/{dataset}/{scheme}/{kernel}/seed-{seed}.tsv")
    threads: 1
    resources:
        **RESOURCES,
    params:
        model=lambda wildcards: STUDY.at(wildcards.study).dataset(wildcards.dataset).model_arguments(),
        options=lambda wildcards: STUDY.at(wildcards.study).run_options(
            wildcards.dataset, wildcards.scheme, wildcards.kernel
        ),
        device=lambda wildcards: STUDY.at(wildcards.study).device_options(),
        folder=lambda wildcards, output: str(Path(output.metrics).parent),
        checkpoints=out("checkpoints"),
        numerics=NUMERICS,
    message:
        "Sampling {wildcards.study}: {wildcards.dataset}, {wildcards.scheme}, {wildcards.kernel}, seed {wildcards.seed}"
    shell:
        "smcda run --data {input.data:q} --model {params.model} --scheme {wildcards.scheme}"
        " --kernel {wildcards.kernel} --seed {wildcards.seed} --out {params.folder:q}"
        " {params.options} {params.device} --compilation-cache {config[compilation_cache]:q}"
        " --checkpoint-dir {params.checkpoints:q} --checkpoint-every {config[checkpoint_every]}"
        " --overwrite > {log:q} 2>&1"
