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
                WORKFLOW.parent / "smcda" / name
                for name in ("datasets.py", "sources.py")
            )
        ),
    message:
        "Preparing {wildcards.dataset}"
    shell:
        "smcda data {wildcards.dataset} {params.options} --out {output.data} 2> {log}"
