"""The command: `smcda data` prepares a dataset, `smcda run` samples, `smcda bench` measures."""

import argparse
import logging
import os
import sys
from collections.abc import Sequence

from smcda.errors import BadInput, SmcdaError, configure_logging, from_os_error
from smcda.options import make_parser
from smcda.parallel.gpu_lock import reserve_gpus

logger = logging.getLogger("smcda")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and turn the user's mistakes into one line and an exit code."""
    configure_logging()
    options = make_parser(data=_data, run=_run, bench=_bench).parse_args(arguments)
    try:
        return options.call(options)
    except SmcdaError as error:
        logger.error("%s", error)
        return error.exit_code
    except OSError as error:
        logger.error("%s", from_os_error(error))
        return SmcdaError.exit_code
    except KeyboardInterrupt:
        logger.error("interrupted")
        return 130


def _data(options: argparse.Namespace) -> int:
    from smcda.data.mnist import prepare

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
    # Reserved before JAX looks at the devices, and held until the run is over.
    with reserve_gpus(options.device, options.devices or 1):
        return _sample(options)


def _sample(options: argparse.Namespace) -> int:
    if options.threads is not None:
        if options.threads < 1:
            raise BadInput(f"threads is {options.threads}, but must be at least 1: leave it out to use all")
        # Read by XLA when its CPU device is first used, which nothing has done yet.
        os.environ["NPROC"] = str(options.threads)
    # Imported here so that `smcda data` and `--help` do not wait for them.
    import jax

    from smcda.request import RunRequest
    from smcda.run.progress import choose_view
    from smcda.run.runner import execute
    from smcda.settings import Settings

    _choose_device(options.device)
    jax.config.update("jax_compilation_cache_dir", str(options.compilation_cache))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    _check_device(options.device)
    chosen = {name: getattr(options, name) for name in Settings.__dataclass_fields__}
    names = set(RunRequest.__dataclass_fields__) - {"settings"}
    given = {name: getattr(options, name) for name in names}
    request = RunRequest(settings=Settings(**chosen), **given)
    results = execute(request, choose_view(options.quiet))
    if not options.quiet:
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
