"""The datasets of a study: built-in ones by their names, and a user's own files and models.

An entry of `datasets` in the config says what a name means; `lib.config.Dataset` lists its keys. What an
entry leaves out is the scale's own.
"""

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from typing import Any

from numpy.lib import format as npy

from smcda._plugins import is_reference
from smcda.data.dataset import ARRAYS
from smcda.data.mnist import BUNDLED
from smcda.errors import BadInput

NETWORKS = {"mnist": "lenet5", "fashion_mnist": "fashion_cnn", "kmnist": "lenet5"}
"""The built-in datasets, and the network for each."""

PUBLISHED = ["mnist", "fashion_mnist"]
"""The datasets of the published study."""

IMAGES = {"full": (60_000, 10_000), "bundled": (2_000, 1_000)}
"""Training and test images of a source."""

ABOUT = ("data", "model", "model_options", "likelihood")
"""What an entry says of the dataset itself. Whatever else it has overrides an option of the run."""

OF_BUILT_IN_NETWORKS = {"prior_scale", "start", "batch_norm"}
"""Options whose values suit the published study: they reach a user's own model only by its entry."""


@dataclass(frozen=True)
class Dataset:
    """A name of the config, and what its entry sets."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def data(self) -> str | None:
        """The user's own file."""
        return self.options.get("data")

    @property
    def model(self) -> str | None:
        """A built-in network, or a user's own as ``file.py:name`` or ``package.module:name``."""
        return self.options.get("model") or (None if self.data else NETWORKS.get(self.name))

    @property
    def has_own_model(self) -> bool:
        """Whether the model is not one of the package's networks."""
        return is_reference(self.model)

    @property
    def model_files(self) -> list[str]:
        """The file in which the user's own model is written; none of an installed package."""
        place = (self.model or "").rpartition(":")[0]
        return [place] if place.endswith(".py") else []

    @property
    def about(self) -> dict[str, Any]:
        """What the entry says of the dataset itself."""
        return {name: self.options[name] for name in ABOUT if self.options.get(name) is not None}

    @property
    def overrides(self) -> dict[str, Any]:
        """Options of the run that the entry sets."""
        return {name: value for name, value in self.options.items() if name not in ABOUT}

    def run_config(self) -> dict[str, Any]:
        """The model as options of the package's `RunConfig`."""
        given = self.about
        # As on the command line: text is read as a Python literal where it is one.
        texts = tuple(
            f"{key}={value if isinstance(value, str) else repr(value)}"
            for key, value in given.get("model_options", {}).items()
        )
        return {"model": self.model, "model_options": texts, "likelihood": given.get("likelihood")}

    def model_arguments(self) -> str:
        """The same as arguments of `smcda run --model`."""
        options = self.run_config()
        words = [options["model"]]
        for text in options["model_options"]:
            words += ["--model-options", text]
        if options["likelihood"]:
            words += ["--likelihood", options["likelihood"]]
        return " ".join(map(quote, words))

    def n_examples(self, source: str, n_train: int | None, n_test: int | None) -> tuple[int, int]:
        """Number of training and test examples: of an own file all, else of the source as many as wanted."""
        if self.data is None:
            most_train, most_test = IMAGES[source]
            return n_train or most_train, n_test or most_test
        shapes = read_shapes(Path(self.data))
        return shapes["train_x"][0], shapes["test_x"][0]

    def check(self, source: str) -> None:
        """Refuse an entry that can't be run."""
        if self.data is not None and self.name in NETWORKS:
            raise BadInput(
                f"data is {self.data!r}, but {self.name} is built in: give your own data another name"
            )
        if self.data is None and self.name not in NETWORKS:
            raise BadInput(
                f"{self.name!r} is not built in ({', '.join(NETWORKS)}) and has no data: "
                "correct the name, or set data and model"
            )
        if self.data is None and source == "bundled" and not (BUNDLED / f"{self.name}.npz").exists():
            raise BadInput(f"{self.name} is not bundled: set source: full, or leave it out")
        if self.model is None:
            raise BadInput("model is not set: give one as file.py:name, or a built-in network")
        for file in self.model_files:
            if not Path(file).is_file():
                raise BadInput(
                    f"model is {self.model!r}, but {file} is not a file: "
                    "give its path from the project's folder"
                )
        if self.data is not None:
            read_shapes(Path(self.data))


def read_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Shapes of a dataset's arrays, from the headers in its file; no array is loaded."""
    if not path.is_file():
        raise BadInput(f"data is {str(path)!r}, which is not a file: give its path from the project's folder")
    shapes = {}
    try:
        with zipfile.ZipFile(path) as archive:
            there = set(archive.namelist())
            missing = [name for name in ARRAYS if f"{name}.npy" not in there]
            for name in [name for name in ARRAYS if name not in missing]:
                with archive.open(f"{name}.npy") as member:
                    version = npy.read_magic(member)
                    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
                    shapes[name] = read(member)[0]
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise BadInput(
            f"data is {str(path)!r}, which is no .npz ({error}): write it by numpy.savez"
        ) from None
    if missing:
        raise BadInput(
            f"data is {str(path)!r}, which lacks {', '.join(missing)}: "
            "a study needs examples to learn from and to be tested on"
        )
    if empty := [name for name, shape in shapes.items() if not shape or shape[0] == 0]:
        raise BadInput(f"data is {str(path)!r}, whose {', '.join(empty)} has no examples: add some")
    return shapes
