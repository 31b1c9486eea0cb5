"""The command `smcda`: prepare data, run the sampler or a baseline, watch runs, measure speed.

The options of `run` and `baseline` are generated from their ``config.py``.
"""

import argparse
import logging
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from smcda import __version__
from smcda._options import options
from smcda._parser import Parser, add_option
from smcda._plugins import is_reference
from smcda.baselines.config import BASELINES
from smcda.config import ProcessConfig, RunConfig, SamplerConfig
from smcda.errors import BadInput, SmcdaError, configure_logging

logger = logging.getLogger("smcda")

EPILOG = """\
exit codes: 0 done, 1 failed, 2 bad input, 3 diverged (no particle has a finite log-density),
            75 stopped by SIGTERM, SIGINT or SIGUSR1 (the same command resumes)

example, with the images that come with the package:
  smcda data mnist --bundled --out mnist.npz
  smcda run --data mnist.npz --model lenet5 --scheme linear --kernel hmc --seed 0 --out run \\
            --particles 10 --iterations 50 --step-size 0.01 --batch-size 100
"""


def make_parser() -> argparse.ArgumentParser:
    """Build the parser; what it returns holds in `call` the command that was chosen."""
    parser = Parser(
        prog="smcda",
        description="Sequential Monte Carlo over the parameters of a model, with data annealing.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"smcda {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar=f"{{{','.join(COMMANDS)}}}")
    for name, (call, add, summary) in COMMANDS.items():
        command = commands.add_parser(name, help=summary, description=call.__doc__)
        command.set_defaults(call=call)
        command.add_options = add
    return parser


def _add_data(parser: Parser) -> None:
    """Add the arguments of `prepare`, by their names there."""
    parser.add_argument("name", metavar="dataset", help="mnist, fashion_mnist or kmnist")
    parser.add_argument("--out", type=Path, required=True, metavar="F.npz", help="the file to write")
    parser.add_argument(
        "--bundled", action="store_true", help="the small subset inside the package (offline)"
    )
    parser.add_argument(
        "--mirror", type=Path, metavar="DIR", help="take the four IDX files from DIR/<dataset>/ (offline)"
    )
    parser.add_argument("--cache", type=Path, metavar="DIR", help="folder of TFDS's downloads")
    for part, images in (("train", "training"), ("test", "test")):
        text = f"use only the first N {images} images"
        parser.add_argument(f"--{part}", dest=f"n_{part}", type=int, metavar="N", help=text)


def _add_run(parser: Parser) -> None:
    for title, config in (("run", RunConfig), ("sampler", SamplerConfig), ("process", ProcessConfig)):
        group = parser.add_argument_group(title)
        for option in options(config):
            add_option(group, option)


def _add_watch(parser: Parser) -> None:
    """Add the arguments of `watch`, by their names there."""
    parser.add_argument(
        "folders", nargs="*", type=Path, default=[Path("results")], metavar="FOLDER",
        help="where to look for runs, at any depth (default: results)",
    )  # fmt: skip
    parser.add_argument("--once", action="store_true", help="print every run once and leave")


OF_BASELINES = ("data", "model", "out", "model_options", "likelihood", "ood", "seed", "save_posterior")
OF_BASELINES += ("overwrite", "gradients")
"""Options of a run that every baseline reads too."""


def _read_by(config: Any) -> tuple[str, ...]:
    """The options of a run that a baseline reads."""
    return (*OF_BASELINES, *["prior_scale"] * config.reads_prior)


def _add_baseline(parser: Parser) -> None:
    methods = parser.add_subparsers(title="methods", required=True, metavar=f"{{{','.join(BASELINES)}}}")
    for name, config in BASELINES.items():
        summary = config.__doc__
        method = methods.add_parser(name, help=summary, description=summary)
        method.set_defaults(method=name)
        shared = [option for option in options(RunConfig) if option.name in _read_by(config)]
        for title, found in (("run", shared), (name, options(config)), ("process", options(ProcessConfig))):
            group = method.add_argument_group(title)
            for option in found:
                add_option(group, option)


def _add_bench(parser: Parser) -> None:
    parser.add_argument("measures", nargs="*", help="which to take (default: all)")
    parser.add_argument("--json", type=Path, metavar="F", help="also write the figures to a file")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that it works")
    cache = next(option for option in options(ProcessConfig) if option.name == "compilation_cache")
    add_option(parser, cache)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and turn the user's mistakes into one line and an exit code."""
    configure_logging()
    try:
        given = make_parser().parse_args(arguments)
        given.call(given)
    except SmcdaError as error:
        logger.error("%s", error)
        return error.exit_code
    except OSError as error:
        # Such as a full disk.
        logger.error("%s: %s", error.filename or "file", error.strerror or error)
        return SmcdaError.exit_code
    except KeyboardInterrupt:
        logger.error("interrupted")
        return 130
    return 0


def _data(given: argparse.Namespace) -> None:
    """Write one verified .npz file of a dataset: train_x train_y test_x test_y, uint8."""
    from smcda.data.mnist import prepare

    prepare(**{name: value for name, value in vars(given).items() if name != "call"})


def _run(given: argparse.Namespace) -> None:
    """Sample the posterior of a model's parameters and write metrics.json and trace.csv into a folder.

    For the built-in networks defaults are the published values where there are any; for a model of your own
    the sampler is adaptive and needs no tuning.
    """
    process = ProcessConfig(**_values(given, ProcessConfig))
    settings, run = _values(given, SamplerConfig), _values(given, RunConfig)
    if not is_reference(run["model"]):
        # The built-in networks are the published study's.
        settings: dict[str, Any] = {"scheme": "full_batch"} | settings
    config = RunConfig(sampler=SamplerConfig(**settings), **run)
    assert config.sampler is not None

    def sample() -> dict[str, Any]:
        from smcda.runs.progress import choose_view
        from smcda.runs.runner import execute

        return execute(config, choose_view(process.quiet)).metrics

    _in_process(process, config.sampler.devices or 1, sample, config.out, "sampling")


def _baseline(given: argparse.Namespace) -> None:
    """Train or sample by another method, on the same models, data and gradients; its files are a run's."""
    process = ProcessConfig(**_values(given, ProcessConfig))
    config_class = BASELINES[given.method]
    config = config_class(**_values(given, config_class))
    read = _read_by(config_class)
    run = RunConfig(**{name: value for name, value in _values(given, RunConfig).items() if name in read})

    def sample() -> dict[str, Any]:
        from smcda.baselines.run import execute
        from smcda.runs.progress import choose_view

        return execute(run, config, choose_view(process.quiet)).metrics

    _in_process(process, 1, sample, run.out, "the chosen run")


def _in_process(
    process: ProcessConfig, n_devices: int, sample: Callable[[], dict[str, Any]], out: Path, of_what: str
) -> None:
    """Set the process up, do the work, and print the scores in one line."""
    from smcda.parallel.gpu_lock import reserve_gpus

    if process.threads is not None:
        # Read by XLA when its CPU device is first used, which nothing has done yet.
        os.environ["NPROC"] = str(process.threads)
    # Reserved before JAX looks at the devices, and held until the run is over.
    with reserve_gpus(process.device, n_devices):
        _choose_device(process)
        metrics = sample()
    if not process.quiet:
        print(", ".join([*_scores(metrics), f"{metrics['runtime_s']:.1f} s of {of_what}: {out}"]))


def _scores(metrics: dict[str, Any]) -> list[str]:
    """Test scores in words, the log-likelihood last; none without test data."""
    names = sorted((name for name in metrics if name.startswith("test_")), key="test_log_likelihood".__eq__)
    words = {name: name.replace("_", " ").replace("log likelihood", "log-likelihood") for name in names}
    formats = {"test_accuracy": ".2f", "test_log_likelihood": ".4f"}
    return [
        f"{words[name]} {metrics[name]:{formats.get(name, '.4g')}}" + " %" * (name == "test_accuracy")
        for name in names
    ]


def _choose_device(process: ProcessConfig) -> None:
    import jax

    if process.device == "cpu":
        jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_compilation_cache_dir", str(process.compilation_cache))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    if process.device == "gpu" and jax.default_backend() != "gpu":
        raise BadInput(
            "device gpu is not there: install the extra (pip install 'smcda[cuda]') on a machine with an "
            "NVIDIA GPU, or choose --device cpu"
        )


def _watch(given: argparse.Namespace) -> None:
    """Show how runs are going, until Ctrl-C: a study's, also while Snakemake builds it, or any others.

    It only reads the files that runs write, so it works from any machine that sees the folder. Where the
    output is no terminal, one line per run is printed once, as plain text.
    """
    from smcda.watch import watch

    watch(given.folders, given.once)


def _bench(given: argparse.Namespace) -> None:
    """Measure ratios, interleaved in one process, in about 20 minutes.

    Ours against a plain implementation, against the machine's matrix product, against BlackJAX where it is
    installed.
    """
    import jax

    from smcda.bench import bench

    jax.config.update("jax_compilation_cache_dir", str(given.compilation_cache))
    bench(given.measures, given.quick, given.json)


def _values(given: argparse.Namespace, config: type) -> dict[str, Any]:
    """The values of a config's options that were given or have a default."""
    values = {option.name: getattr(given, option.name, None) for option in options(config)}
    return {name: value for name, value in values.items() if value is not None}


COMMANDS = {
    "data": (_data, _add_data, "prepare a dataset as one verified file"),
    "run": (_run, _add_run, "sample the posterior of a model's parameters"),
    "watch": (_watch, _add_watch, "show how runs are going"),
    "baseline": (_baseline, _add_baseline, "train a deep ensemble or sample by SGHMC instead"),
    "bench": (_bench, _add_bench, "measure how fast this machine samples"),
}


if __name__ == "__main__":
    sys.exit(main())
