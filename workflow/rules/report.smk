"""The report (`snakemake --report report.html`): every figure and table as a page that needs no other file.

Title and caption of an entry are in `workflow/report`. Categories begin with a number because the report sorts
them by name.
"""

RESULTS, NUMBERS, FULL_DATA = "1 Scores and cost", "4 All numbers", "5 Reference study"
# What each page shows: its category and the file.
PAGES = {
    name: (category, rules.figure.output.png.format(figure=name)) for name, (_, category) in FIGURES.items()
}
PAGES |= {name: (RESULTS, rules.table.output.csv.format(table=name)) for name in TABLES}
PAGES |= {name: (NUMBERS, rules.summary.output[name]) for name in ("summary", "runs")}
REFERENCE_PAGES = {name: rules.reference_table.output.csv.format(table=name) for name in REFERENCE_TABLES}
REFERENCE_PAGES |= {name: rules.reference_figure.output.png.format(figure=name) for name in REFERENCE_FIGURES}
REFERENCE_PAGES |= {name: rules.reference_study.output[name] for name in ("summary", "runs")}
PAGES |= {f"reference_{name}": (FULL_DATA, file) for name, file in REFERENCE_PAGES.items()}


rule pages:
    input:
        files=[file for _, file in PAGES.values()],
        captions=[caption_of(name) for name in PAGES],
        templates=TEMPLATES,
        source=sources("make_pages.py"),
    output:
        [in_report(name, category) for name, (category, _) in PAGES.items()],
    log:
        out("logs/pages.log"),
    localrule: True
    message:
        "Making the report's pages"
    script:
        "../scripts/make_pages.py"


rule headlines:
    input:
        runs=rules.summary.output.runs,
        summary=rules.summary.output.summary,
        comparison=rules.reference_table.output.csv.format(table="comparison"),
        caption=caption_of("headlines"),
        templates=TEMPLATES,
        source=sources("write_headlines.py"),
    output:
        html=in_report("headlines", RESULTS),
    log:
        out("logs/headlines.log"),
    localrule: True
    message:
        "Writing the report's first page"
    script:
        "../scripts/write_headlines.py"
