"""The command: `smcda data` prepares a dataset, `smcda run` samples, `smcda bench` measures."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from smcda import __version__
from smcda.errors import BadInput, SmcdaError, notice, of_the_system
from smcda.files import user_cache
from smcda.lease import gpus_for
from smcda.signals import StopSignals

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


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and turn the user's mistakes into one line and an exit code."""
    options = _parser().parse_args(arguments)
    try:
        return options.call(options)
    except SmcdaError as error:
        if str(error):
            notice(str(error))
        return error.exit_code
    except OSError as error:
        notice(str(of_the_system(error)))
        return SmcdaError.exit_code
    except KeyboardInterrupt:
        notice("interrupted")
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="smcda",
        description="Sequential Monte Carlo over neural-network weights, with data annealing.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"smcda {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="{data,run,bench}")
    _add_data(commands)
    _add_run(commands)
    _add_bench(commands)
    return parser


def _add_data(commands: argparse._SubParsersAction) -> None:
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
    data.set_defaults(call=_data)


def _add_run(commands: argparse._SubParsersAction) -> None:
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
    work.add_argument(
        "--hosts",
        type=int,
        metavar="N",
        help="make one run by N processes, each with its --devices: srun -n N smcda run --hosts N ...",
    )
    _add_cache(work)
    run.set_defaults(call=_run)


def _add_bench(commands: argparse._SubParsersAction) -> None:
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
    measure.set_defaults(call=_bench)


def _add_cache(group: argparse._ActionsContainer) -> None:
    group.add_argument(
        "--compilation-cache",
        type=Path,
        metavar="DIR",
        default=user_cache(),
        help="where compiled programs are kept for the next run",
    )


def _data(options: argparse.Namespace) -> int:
    from smcda.sources import prepare

    prepare(
        options.dataset,
        options.out,
        mirror=options.mirror,
        cache=options.cache,
        bundled=options.bundled,
        n_train=options.train,
        n_test=options.test,
    )
    return 0


def _run(options: argparse.Namespace) -> int:
    # Leased before JAX looks at the devices, and held until the run is over.
    with gpus_for(options.device, options.devices or 1) as held:
        return _sample(options, len(held))


def _sample(options: argparse.Namespace, n_gpus: int) -> int:
    if options.threads is not None:
        if options.threads < 1:
            raise BadInput(f"threads is {options.threads}, but must be at least 1: leave it out to use all")
        # Read by XLA when its CPU device is first used, which nothing has done yet.
        os.environ["NPROC"] = str(options.threads)
    # From here on a signal to stop is noted, and heeded at the next moment that loses nothing.
    with StopSignals(exits=True) as stop:
        # Imported here so that `smcda data` and `--help` do not wait for them.
        import jax

        from smcda.joining import joined
        from smcda.progress import choose_view
        from smcda.request import RunRequest
        from smcda.runner import execute
        from smcda.settings import Settings

        _choose_device(options.device)
        jax.config.update("jax_compilation_cache_dir", str(options.compilation_cache))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        with joined(options.hosts, stop, n_gpus) as hosts:
            quiet = options.quiet or not hosts.is_first
            with hosts.together():
                _check_device(options.device)
                chosen = {name: getattr(options, name) for name in Settings.__dataclass_fields__}
                names = set(RunRequest.__dataclass_fields__) - {"settings"}
                given = {name: getattr(options, name) for name in names}
                request = RunRequest(settings=Settings(**chosen), **given)
            results = execute(request, choose_view(quiet), stop, hosts)
    if not quiet:
        print(
            f"test accuracy {results['test_accuracy']:.2f} %, test log-likelihood "
            f"{results['test_log_likelihood']:.4f}, {results['runtime_s']:.1f} s of sampling: {options.out}"
        )
    return 0


def _bench(options: argparse.Namespace) -> int:
    import jax

    from smcda.bench import bench

    jax.config.update("jax_compilation_cache_dir", str(options.compilation_cache))
    bench(options.measures, options.quick, options.json)
    return 0


def _choose_device(name: str) -> None:
    """Make JAX use the device that was asked for, once it looks for one."""
    import jax

    from smcda.settings import one_of

    one_of("device", name, ("auto", "cpu", "gpu"))
    if name == "cpu":
        jax.config.update("jax_platforms", "cpu")


def _check_device(name: str) -> None:
    """Say it if the device that was asked for is not there."""
    import jax

    if name == "gpu" and jax.default_backend() != "gpu":
        raise BadInput(
            "device gpu is not there: install the extra (pip install 'smcda[cuda]') on a machine with an "
            "NVIDIA GPU, or choose --device cpu"
        )


if __name__ == "__main__":
    sys.exit(main())
