"""All runs as one table, and their means over seeds."""


def of_all_runs(pattern):
    """One file of every run of the study."""
    return [pattern.format(**run) for run in STUDY.runs()]


rule summary:
    input:
        metrics=of_all_runs(rules.run.output.metrics),
    output:
        runs=OUT + "/runs.csv",
        summary=OUT + "/summary.csv",
    params:
        runs=STUDY.runs(),
        source=script_hash("summary.py"),
    log:
        OUT + "/logs/summary.log",
    benchmark:
        OUT + "/benchmarks/summary.tsv"
    message:
        "Summarising {OUT}/runs"
    script:
        "../scripts/summary.py"


def summarise_what_is_there():
    """After a failure: summarise the runs that finished and say which did not.

    The files are dated to the beginning of time, so that the next Snakemake makes them anew.
    """
    sys.path.insert(0, str(WORKFLOW / "scripts"))
    from summary import write_summary

    missing = write_summary(
        STUDY.runs(),
        [Path(path) for path in rules.summary.input.metrics],
        Path(rules.summary.output.runs),
        Path(rules.summary.output.summary),
    )
    for path in rules.summary.output:
        os.utime(path, (0, 0))
    for run in missing:
        log = rules.run.log[0].format(**run)
        print("missing: {dataset} {scheme} {kernel} seed {seed}".format(**run), f"(see {log})", file=sys.stderr)
