"""Write the figures of a benchmark file into docs/performance.md, so that none is typed by hand.

smcda bench --json tools/two-cores.json
python tools/count_gpu_programs.py
python tools/render.py
"""

import json
import re
from pathlib import Path

from smcda.bench import THRESHOLDS, look_up
from smcda.bench.adaptive import DEFAULT_STEPS, FEW_STEPS, NUTS_DRAWS, NUTS_WARMUP, at_equal_error

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "performance.md"


def measured(figures: dict) -> str:
    """Thresholds beside what was found."""
    lines = ["| measure | key | found | threshold |", "| --- | --- | --- | --- |"]
    for threshold in THRESHOLDS:
        value = look_up(figures, threshold.key)
        found = "not measured" if value is None else f"{value:.3g}"
        if value is not None and not threshold.met(value):
            found = f"**{found}** (missed)"
        lines.append(f"| {threshold.what} | `{threshold.key}` | {found} | {threshold.bounds()} |")
    lines += ["", "Beside them, on the same machine:", "", "| what | figure |", "| --- | --- |"]
    for network, by_particles in figures["microseconds_per_particle_image"].items():
        for particles, micro in by_particles.items():
            share = figures["matmul_share"][network][particles]
            what = f"gradient per particle and image, {network}, J={particles}"
            lines.append(f"| {what} | {micro:.1f} us, {100 * share:.0f} % of the matrix product |")
    lines.append(f"| matrix product | {figures['matmul_gflops']:.0f} GFLOP/s |")
    for n, micro in figures["microseconds_per_image"].items():
        lines.append(f"| full-batch LD iteration, J=10, M={int(n):,}, per image | {micro:.0f} us |")
    lines.append(f"| cold start to first iteration | {figures['cold_start_s']:.1f} s |")
    for name, phase in figures["paper_scale"].items():
        scheme, kernel = name.split(".")
        what = f"paper scale, J=4: `full_batch` over `{scheme}`, {kernel}"
        lines.append(f"| {what} | {phase['measured']:.1f} times ({phase['allowed']:.1f} by the count) |")
    if figures.get("blackjax_hmc_step_over_ours") is not None:
        ratio = figures["blackjax_hmc_step_over_ours"]
        lines.append(f"| HMC step of BlackJAX on 500 images, nothing masked / our iteration | {ratio:.1f} |")
    for scale, seconds in figures["checkpoint_seconds"].items():
        lines.append(f"| one checkpoint, particles of {scale} scale | {seconds:.2f} s |")
    return "\n".join(lines)


def cost(figures: dict) -> str:
    """Counts, bound and clock; then the predictions."""
    columns = ("useful_flops", "xla_flops", "xla_bytes", "bound_us", "xla_measured_us")
    lines = [
        "| network | useful operations | XLA's operations | XLA's bytes | bound, us | measured, us |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for network, costs in figures["cost_model"].items():
        cells = [f"{costs[c]:,.0f}" if "us" not in c.split("_")[1:] else f"{costs[c]:.1f}" for c in columns]
        lines.append(f"| {network} | {' | '.join(cells)} |")
    return "\n".join(lines)


PRECISION_OF = {"library": "float32", "generated": "float32", "generated tf32x3": "tf32x3"}
PRODUCTS_BY = {"library": "cuBLAS", "generated": "XLA", "generated tf32x3": "XLA"}


def gpu(figures: dict) -> str:
    """Counts of the programs for a GPU; then what they make of one evaluation and of the published grid."""
    lines = [
        "| network | precision | products by | kernels | of them products | bytes | operations of products |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for network, programs in figures["programs"].items():
        for program, counts in programs.items():
            cells = [
                network,
                PRECISION_OF[program],
                PRODUCTS_BY[program],
                counts["kernels"],
                counts["products"],
            ]
            cells += [f"{counts['bytes']:,.0f}", f"{counts['flops']:,.0f}"]
            lines.append(f"| {' | '.join(map(str, cells))} |")
    networks = list(figures["programs"])
    lines += [
        "",
        f"| GPU | precision | {' | '.join(f'{name}, us' for name in networks)} | published grid, hours |",
        "| --- " * (len(networks) + 3) + "|",
    ]
    for name, by_precision in figures["microseconds_per_evaluation"].items():
        for precision, micro in by_precision.items():
            cells = [f"{micro['bound'][n]:.2f} to {micro['cautious'][n]:.2f}" for n in networks]
            hours = figures["hours"][name][precision]
            cells.append(f"{hours['bound']:.0f} to {hours['cautious']:.0f}")
            lines.append(f"| {name} | {precision} | {' | '.join(cells)} |")
    return "\n".join(lines)


SAMPLERS = {
    "adaptive": "`adaptive`",
    "tempering": "ours, tempering of all data (`batch_size=N`)",
    "blackjax_smc": f"BlackJAX tempered SMC, {FEW_STEPS} HMC steps per stage",
    "blackjax_smc_default": f"the same, {DEFAULT_STEPS} HMC steps (its default)",
    "blackjax_nuts": f"BlackJAX NUTS, {NUTS_WARMUP} + {NUTS_DRAWS} draws",
}


def adaptive(figures: dict) -> str:
    """Samplers of the logistic regression, one table per size."""
    lines = []
    for n, runs in figures["adaptive"].items():
        lines += [
            f"| N={int(n):,}, J={runs['particles']:,} | gradients | error of mean | log evidence - Laplace "
            "| s | gradients / adaptive | at equal error | s at equal error |",
            "| --- | --- | --- | --- | --- | --- | --- | --- |",
        ]
        # Gradients of all particles together, as NUTS counts those of its chain.
        found = {
            name: costs | {"gradients": costs["gradients"] * (1 if "nuts" in name else runs["particles"])}
            for name, costs in runs["samplers"].items()
        }
        ours = found["adaptive"]
        for name, costs in found.items():
            evidence = costs["log_evidence_minus_laplace"]
            cells = [
                SAMPLERS[name],
                f"{costs['gradients']:,.0f}",
                f"{costs['error_of_mean']:.3f}",
                f"{sum(evidence) / len(evidence):.2f}" if evidence else "none",
                f"{costs['seconds']:.1f}",
                f"{costs['gradients'] / ours['gradients']:.2g}",
                f"{at_equal_error(costs, ours):.2g}",
                f"{at_equal_error(costs, ours, 'seconds'):.2g}",
            ]
            lines.append(f"| {' | '.join(cells)} |")
        lines.append("")
    return "\n".join(lines[:-1])


def main() -> None:
    """Replace what stands between the markers."""
    figures = json.loads((HERE / "two-cores.json").read_text())
    page = PAGE.read_text()
    sections = {"measured": measured(figures), "adaptive": adaptive(figures), "cost": cost(figures)}
    sections["gpu"] = gpu(json.loads((HERE / "gpu.json").read_text()))
    for name, text in sections.items():
        between = re.compile(f"<!-- {name} -->.*?<!-- /{name} -->", re.DOTALL)
        page = between.sub(lambda _, n=name, t=text: f"<!-- {n} -->\n{t}\n<!-- /{n} -->", page)
    PAGE.write_text(page)


if __name__ == "__main__":
    main()
