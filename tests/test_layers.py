"""Dependencies point one way: each layer imports only from those before it."""

import ast
import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "smcda"
LAYERS = (
    {"config", "errors", "_io", "_options", "_parser", "_plugins", "_sampler_config"},
    {"smc"},
    {"models"},
    {"data"},
    {"parallel"},
    {"runs"},
    {"baselines"},
    {"cli", "bench", "watch"},
)
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}


def imports_of(path):
    """Modules of the package that a file imports, also inside functions; layers by name."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        yield from (name.split(".")[1] for name in names if name.startswith("smcda."))


def upward_imports(package):
    found = []
    for path in sorted(package.rglob("*.py")):
        place = path.relative_to(package)
        layer = place.parts[0].removesuffix(".py")
        if layer in ("__init__", "__main__"):
            continue
        found += [
            f"{place} imports smcda.{name}"
            for name in imports_of(path)
            if name in RANK and RANK[name] > RANK[layer]
        ]
    return found


def test_no_module_imports_from_a_layer_above_it():
    assert upward_imports(PACKAGE) == []


def test_every_module_has_a_layer():
    names = {path.stem for path in PACKAGE.glob("*.py")} | {
        path.parent.name for path in PACKAGE.glob("*/*.py")
    }
    assert names - {"__init__", "__main__", "smcda"} == set(RANK)


def test_an_upward_import_would_be_found(tmp_path):
    (tmp_path / "smc").mkdir()
    (tmp_path / "smc" / "bad.py").write_text("def f():\n    from smcda.runs import loop\n")
    assert upward_imports(tmp_path) == ["smc/bad.py imports smcda.runs"]


def test_importing_the_algorithm_imports_nothing_else_of_the_package():
    # JAX itself imports filelock where it is installed.
    code = "import jax, sys; old = set(sys.modules); import smcda.smc.sampler; print(*set(sys.modules) - old)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found = done.stdout.split()
    assert "smcda.smc.sampler" in found
    forbidden = ("smcda.models", "smcda.data", "smcda.parallel", "smcda.runs", "filelock", "orbax", "flax")
    assert [name for name in found if name.startswith(forbidden)] == []


def test_importing_the_config_does_not_import_jax():
    code = "import smcda.config, smcda.cli, sys; sys.exit('jax' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
