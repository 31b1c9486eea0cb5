"""Our paper: its numbers as macros, its figures and tables put in, built by latexmk."""

TEX_PACKAGES = "latexmk texlive-latex-recommended texlive-latex-extra texlive-pictures texlive-science lmodern"
HAS_TEX = shutil.which("latexmk") is not None and shutil.which("pdflatex") is not None
PAPER_IF_TEX = [out("paper.pdf")] if HAS_TEX else []

if not HAS_TEX and workflow.is_main_process:
    logger.warning(
        f"No TeX here: all but paper.pdf is built. For the paper install (Debian) {TEX_PACKAGES}"
    )


rule numbers:
    input:
        **MEASURED_INPUTS,
        runs=rules.summary.output.runs,
        summary=rules.summary.output.summary,
        published=WORKFLOW / "resources" / "published_table.csv",
        template=PAPER / "templates" / "numbers.tex.j2",
    output:
        tex=out("numbers.tex"),
    log:
        out("logs/numbers.log"),
    params:
        settings=STUDY.settings | {"scale": STUDY.scale},
        source=script_hash(
            "paper_numbers.py",
            "verdicts.py",
            "phrases.py",
            "cells.py",
            "measured_numbers.py",
            "verify.py",
            "variants.py",
            "curvature.py",
            "summary.py",
        ),
    message:
        "Collecting the numbers of the text"
    script:
        "../scripts/paper_numbers.py"


rule paper:
    input:
        main=PAPER / "main.tex",
        bibliography=PAPER / "refs.bib",
        numbers=rules.numbers.output.tex,
        figures=[getattr(rules, name).output.pdf for name in FIGURES] + MEASURED_FIGURES,
        tables=expand(rules.table.output.tex, table=TABLES) + MEASURED_TABLES,
    output:
        pdf=report(
            out("paper.pdf"),
            caption="../report/paper.rst",
            category="Paper",
            labels={"artefact": "The paper", "kind": "document"},
        ),
    log:
        out("logs/paper.log"),
    benchmark:
        out("benchmarks/paper.tsv")
    params:
        packages=TEX_PACKAGES,
        source=script_hash("paper.py"),
    message:
        "Setting the paper"
    script:
        "../scripts/paper.py"
