"""Our paper: its numbers as macros, its figures and tables, built by latexmk."""

TEX_PACKAGES = (
    "latexmk texlive-latex-recommended texlive-latex-extra texlive-pictures texlive-science lmodern"
)
HAS_TEX = shutil.which("latexmk") is not None and shutil.which("pdflatex") is not None
PAPER_IF_TEX = [out("paper.pdf")] if HAS_TEX else []

if not HAS_TEX and workflow.is_main_process:
    logger.warning(
        f"TeX is not installed: all but paper.pdf is built. For the paper install (Debian) {TEX_PACKAGES}"
    )


rule numbers:
    input:
        runs=rules.summary.output.runs,
        reference=REFERENCE["runs"],
        traces=REFERENCE["traces"],
        ablations=PAPER / "reference" / "ablations.csv",
        small_data=KEPT_SMALL,
        published=PUBLISHED,
        published_settings=PUBLISHED_SETTINGS,
        source=sources("collect_numbers.py"),
    output:
        tex=out("numbers.tex"),
    log:
        out("logs/numbers.log"),
    localrule: True
    params:
        settings={
            name: value
            for name, value in STUDY.settings.items()
            if name not in ("ablations", "mirror_dir", "download_cache")
        }
        | {"scale": STUDY.scale},
        entries=STUDY.entries,
    message:
        "Collecting the numbers of the text"
    script:
        "../scripts/collect_numbers.py"


rule paper:
    input:
        main=PAPER / "main.tex",
        bibliography=PAPER / "refs.bib",
        numbers=rules.numbers.output.tex,
        figures=expand(rules.figure.output.pdf, figure=FIGURES) + rules.reference.input.figures,
        tables=expand(rules.table.output.tex, table=TABLES) + rules.reference.input.tables,
        source=sources("build_paper.py"),
    output:
        pdf=report(
            out("paper.pdf"),
            caption="../report/paper.rst",
            category="6 Paper",
            labels={"result": "The paper"},
        ),
    log:
        out("logs/paper.log"),
    localrule: True
    params:
        packages=TEX_PACKAGES,
    message:
        "Building the paper"
    script:
        "../scripts/build_paper.py"
