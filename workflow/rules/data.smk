"""One verified file per built-in dataset."""


rule data:
    input:
        images=["smcda/data/bundled/{dataset}.npz"] * (STUDY.settings["source"] == "bundled"),
        source=["smcda/data/dataset.py", "smcda/data/mnist.py"],
    output:
        data=out("data/{dataset}.npz"),
    log:
        out("logs/data/{dataset}.log"),
    wildcard_constraints:
        dataset="|".join(NETWORKS),
    localrule: True
    params:
        options=STUDY.data_options(),
    message:
        "Preparing {wildcards.dataset}"
    shell:
        "smcda data {wildcards.dataset} {params.options} --out {output.data:q} 2> {log:q}"
