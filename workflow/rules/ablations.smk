"""What the published text leaves open, tried one change at a time (workflow/scripts/variants.py), and how near
to the limit of leapfrog its step size is (workflow/scripts/curvature.py).

Asked for by name only: `snakemake decisions --configfile config/cpu-study.yaml`, likewise `curvatures`.
"""

from variants import VARIANTS


rule variant:
    input:
        data=rules.data.output.data,
    output:
        out("variants/{dataset}/{variant}/{kernel}/seed-{seed}.json"),
    log:
        out("logs/variants/{dataset}/{variant}/{kernel}/seed-{seed}.log"),
    wildcard_constraints:
        variant="|".join(VARIANTS),
    threads: 1
    params:
        network=lambda wildcards: NETWORKS[wildcards.dataset],
        particles=STUDY.settings["particles"],
        iterations=STUDY.settings["iterations"],
        model=lambda wildcards: STUDY.model_options(NETWORKS[wildcards.dataset]),
        sampler=SAMPLER,
        source=script_hash("variants.py", "variant_models.py", "variant_sampler.py"),
    message:
        "Trying {wildcards.variant}: {wildcards.dataset}, {wildcards.kernel}, seed {wildcards.seed}"
    shell:
        "python workflow/scripts/variants.py --variant {wildcards.variant} --data {input.data}"
        " --network {params.network} --kernel {wildcards.kernel} --seed {wildcards.seed}"
        " --particles {params.particles} --iterations {params.iterations} {params.model} --threads {threads}"
        " --out {output} 2> {log}"


rule decisions:
    input:
        # What each is compared with: the study's own runs, with nothing changed.
        of_all_runs(rules.run.output.metrics, "constant"),
        [
            rules.variant.output[0].format(
                dataset=dataset, variant=name, kernel=kernel, seed=seed
            )
            for name, variant in VARIANTS.items()
            for dataset in STUDY.settings["datasets"]
            for kernel in STUDY.settings["kernels"]
            for seed in STUDY.settings["seeds"]
            if name != "default"
            and NETWORKS[dataset] in variant.networks
            and kernel in variant.kernels
        ],


rule curvature:
    input:
        data=rules.data.output.data,
    output:
        out("curvature/{dataset}/{kernel}/seed-{seed}.csv"),
    log:
        out("logs/curvature/{dataset}/{kernel}/seed-{seed}.log"),
    threads: 1
    params:
        network=lambda wildcards: NETWORKS[wildcards.dataset],
        particles=STUDY.settings["particles"],
        iterations=STUDY.settings["iterations"],
        model=lambda wildcards: STUDY.model_options(NETWORKS[wildcards.dataset]),
        sampler=SAMPLER,
        source=script_hash("curvature.py", "variants.py", "variant_models.py"),
    message:
        "Following the curvature: {wildcards.dataset}, {wildcards.kernel}, seed {wildcards.seed}"
    shell:
        "python workflow/scripts/curvature.py --data {input.data} --network {params.network}"
        " --kernel {wildcards.kernel} --seed {wildcards.seed} --particles {params.particles}"
        " --iterations {params.iterations} {params.model} --threads {threads} --out {output} 2> {log}"


rule curvatures:
    input:
        expand(
            rules.curvature.output,
            dataset=STUDY.settings["datasets"],
            kernel=STUDY.settings["kernels"],
            seed=STUDY.settings["seeds"],
        ),
