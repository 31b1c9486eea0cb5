"""All runs as one table, and their means over seeds."""


rule summary:
    input:
        metrics=of_runs(rules.run.output.metrics),
        source=sources("summarise.py"),
    output:
        runs=out("runs.csv"),
        summary=out("summary.csv"),
        record=out("study.json"),
    log:
        out("logs/summary.log"),
    localrule: True
    params:
        runs=STUDY.runs(),
        record={STUDY.path: STUDY.record(NUMERICS)},
    message:
        "Summarising all runs"
    script:
        "../scripts/summarise.py"
