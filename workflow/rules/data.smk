"""One verified file a dataset."""


rule data:
    output:
        data=out("data/{dataset}.npz"),
    log:
        out("logs/data/{dataset}.log"),
    params:
        options=STUDY.data_options(config["mirror_dir"], config["download_cache"]),
        source=source_hash(
            *(
                WORKFLOW.parent / "smcda" / "data" / name
                for name in ("dataset.py", "mnist.py")
            )
        ),
    message:
        "Preparing {wildcards.dataset}"
    shell:
        "smcda data {wildcards.dataset} {params.options} --out {output.data} 2> {log}"
