"""All runs as one table, and their means over seeds."""


rule summary:
    input:
        metrics=of_all_runs(rules.run.output.metrics),
    output:
        runs=out("runs.csv"),
        summary=out("summary.csv"),
    log:
        out("logs/summary.log"),
    benchmark:
        out("benchmarks/summary.tsv")
    params:
        runs=STUDY.runs(),
        source=script_hash("summary.py"),
    message:
        "Summarising all runs"
    script:
        "../scripts/summary.py"
