"""Write the figures of a benchmark file into docs/performance.md, so that none is typed by hand.

smcda bench --json tools/two-cores.json
python tools/render.py
"""

import json
import re
from pathlib import Path

from smcda.bench import THRESHOLDS, look_up

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
    lines += ["", "| machine | hours of the published grid (predicted) |", "| --- | --- |"]
    lines += [f"| {name} | {hours:.1f} |" for name, hours in figures["predicted_hours"].items()]
    return "\n".join(lines)


def main() -> None:
    """Replace what stands between the markers."""
    figures = json.loads((HERE / "two-cores.json").read_text())
    page = PAGE.read_text()
    for name, text in (("measured", measured(figures)), ("cost", cost(figures))):
        between = re.compile(f"<!-- {name} -->.*?<!-- /{name} -->", re.DOTALL)
        page = between.sub(lambda _, n=name, t=text: f"<!-- {n} -->\n{t}\n<!-- /{n} -->", page)
    PAGE.write_text(page)


if __name__ == "__main__":
    main()
