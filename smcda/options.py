"""Every option of the command, with its default and what it means."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from smcda import __version__
from smcda.config import cache_dir
from smcda.errors import BadInput

Command = Callable[[argparse.Namespace], int]
"""Does what the options ask for and gives the exit code."""

EPILOG = """\
exit codes: 0 done, 1 failed, 2 bad input, 3 diverged (no particle has a finite log-density),
            75 stopped by SIGTERM, SIGINT or SIGUSR1 (the same command goes on from where it was)

example, with the images that come with the package:
  smcda data mnist --bundled --out mnist.npz
  smcda run --data mnist.npz --network lenet5 --scheme linear --kernel hmc --seed 0 --out run \\
            --particles 10 --iterations 50 --step-size 0.01 --batch-size 100
"""


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line instead of repeating all options."""

    def error(self, message: str) -> NoReturn:
        self.exit(BadInput.exit_code, f"{self.prog}: {message} (see {self.prog} --help)\n")


def make_parser(data: Command, run: Command, bench: Command) -> argparse.ArgumentParser:
    """Build the parser; what it returns holds in `call` the one of these that was asked for."""
    parser = _Parser(
        prog="smcda",
        description="Sequential Monte Carlo over neural-network weights, with data annealing.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"smcda {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="{data,run,bench}")
    _add_data(commands).set_defaults(call=data)
    _add_run(commands).set_defaults(call=run)
    _add_bench(commands).set_defaults(call=bench)
    return parser


def _add_data(commands: argparse._SubParsersAction) -> argparse.ArgumentParser:
    data = commands.add_parser(
        "data",
        help="prepare a dataset as one verified file",
        description="Write one verified .npz file of a dataset: train_x train_y test_x test_y, uint8.",
    )
    data.add_argument("dataset", help="mnist or fashion_mnist")
    data.add_argument("--out", type=Path, required=True, metavar="F.npz", help="the file to write")
    data.add_argument("--bundled", action="store_true", help="the small subset inside the package (offline)")
    data.add_argument(
        "--mirror", type=Path, metavar="DIR", help="take the four IDX files from DIR/<dataset>/ (offline)"
    )
    data.add_argument("--cache", type=Path, metavar="DIR", help="where TFDS keeps its downloads")
    data.add_argument("--train", type=int, metavar="N", help="keep only the first N training images")
    data.add_argument("--test", type=int, metavar="N", help="keep only the first N test images")
    return data


def _add_run(commands: argparse._SubParsersAction) -> argparse.ArgumentParser:
    run = commands.add_parser(
        "run",
        help="sample the posterior of a network's weights",
        description=(
            "Sample the posterior of a network's weights and write metrics.json and trace.csv into a folder. "
            "Defaults are the published values."
        ),
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    what = run.add_argument_group("what to run")
    what.add_argument("--data", type=Path, required=True, metavar="F.npz", help="a file made by smcda data")
    what.add_argument("--network", required=True, help="lenet5 or fashion_cnn")
    what.add_argument(
        "--scheme",
        required=True,
        help="constant, full_batch, constant_to_refine, linear, automated or smooth_data_annealing",
    )
    what.add_argument("--kernel", required=True, help="ld (Langevin) or hmc (Hamiltonian)")
    what.add_argument("--seed", type=int, required=True, help="decides particles, data order and every draw")
    what.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for the results")
    what.add_argument("--batch-norm", action="store_true", help="batch normalisation in fashion_cnn")
    what.add_argument(
        "--prior-scale",
        type=float,
        metavar="S",
        help="standard deviation of every weight under the prior; 1/sqrt(fan_in) a layer if not given",
    )

    how = run.add_argument_group("how to sample")
    how.add_argument("--particles", type=int, default=100, metavar="J", help="number of particles")
    how.add_argument("--iterations", type=int, default=200, metavar="K", help="number of iterations")
    how.add_argument("--step-size", type=float, default=0.002, metavar="h", help="leapfrog step size")
    how.add_argument("--leapfrog-steps", type=int, metavar="S", help="steps a move: 1 for ld, 3 for hmc")
    how.add_argument("--batch-size", type=int, default=500, metavar="kappa", help="images appended at a time")
    how.add_argument(
        "--initial-batch", type=int, metavar="C", help="images to start with; kappa if not given"
    )
    how.add_argument(
        "--resampling", default="multinomial", help="multinomial, systematic, stratified or residual"
    )
    how.add_argument(
        "--weight-target",
        default="current",
        help="target that a move's start is weighed by: current (as published) or previous (exact)",
    )
    how.add_argument("--delta-entropy", type=float, default=1.0, metavar="dS", help="entropy change of SDA")
    how.add_argument(
        "--beta-restart", type=float, default=0.1, metavar="B", help="beta of a joining minibatch"
    )
    how.add_argument("--refine-from", type=float, default=0.9, metavar="F", help="share of K before all data")

    work = run.add_argument_group("how to work")
    work.add_argument("--evaluate-every", type=int, default=10, metavar="N", help="iterations between tests")
    work.add_argument(
        "--checkpoint-every",
        type=float,
        default=300.0,
        metavar="S",
        help="seconds between checkpoints; 0 saves one only when a signal stops the run",
    )
    work.add_argument(
        "--checkpoint-dir",
        type=Path,
        metavar="DIR",
        help="where checkpoints are kept until the run is done; beside --out if not given",
    )
    work.add_argument("--save-posterior", action="store_true", help="also write posterior.npz")
    work.add_argument("--overwrite", action="store_true", help="replace a finished run in --out")
    work.add_argument("--quiet", action="store_true", help="no progress")
    work.add_argument("--device", default="auto", help="auto, cpu or gpu")
    work.add_argument("--threads", type=int, metavar="N", help="CPU threads to use; all if not given")
    work.add_argument(
        "--gradients",
        default="auto",
        help="native (compiled C++, CPU only), xla, or auto: native where it can be had",
    )
    work.add_argument(
        "--micro-batch", type=int, metavar="N", help="images that XLA works on at once; chosen if not given"
    )
    work.add_argument("--particle-chunk", type=int, metavar="N", help="particles at once; likewise")
    work.add_argument(
        "--devices", type=int, metavar="N", help="devices to share the particles out to; all if not given"
    )
    _add_cache(work)
    return run


def _add_bench(commands: argparse._SubParsersAction) -> argparse.ArgumentParser:
    measure = commands.add_parser(
        "bench",
        help="measure how fast this machine samples",
        description=(
            "Measure ratios by turns in one process: ours against the obvious implementation, against the "
            "machine's matrix product, against BlackJAX where it is installed. Takes about 20 minutes."
        ),
    )
    measure.add_argument("measures", nargs="*", help="which to take; all if none is named")
    measure.add_argument("--json", type=Path, metavar="F", help="also write the figures to a file")
    measure.add_argument("--quick", action="store_true", help="tiny sizes, to see that it works")
    _add_cache(measure)
    return measure


def _add_cache(group: argparse._ActionsContainer) -> None:
    group.add_argument(
        "--compilation-cache",
        type=Path,
        metavar="DIR",
        default=cache_dir(),
        help="where compiled programs are kept for the next run",
    )
