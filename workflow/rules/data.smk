"""One verified file per dataset."""

BUNDLED = STUDY.settings["source"] == "bundled"


localrules:
    data,


rule data:
    input:
        images=["smcda/data/bundled/{dataset}.npz"] * BUNDLED,
        source=["smcda/data/dataset.py", "smcda/data/mnist.py"],
    output:
        data=out("data/{dataset}.npz"),
    log:
        out("logs/data/{dataset}.log"),
    params:
        options=STUDY.data_options(),
    message:
        "Preparing {wildcards.dataset}"
    shell:
        "smcda data {wildcards.dataset} {params.options} --out {output.data:q} 2> {log:q}"
