"""One verified file a dataset."""


rule data:
    output:
        data=OUT + "/data/{dataset}.npz",
    params:
        options=STUDY.data_options(config["mirror_dir"], config["download_cache"]),
        source=source_hash(WORKFLOW.parent / "smcda" / "datasets.py"),
    log:
        OUT + "/logs/data/{dataset}.log",
    message:
        "Preparing {wildcards.dataset}"
    shell:
        "smcda data {wildcards.dataset} {params.options} --out {output.data} 2> {log}"
