"""What config.yaml may say of the small-data study: its grid, and the methods that it compares.

Options of a method are those of `smcda run` or `smcda baseline`, with the same defaults and rules.
"""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, create_model, model_validator

from lib.datasets import IMAGES
from lib.fields import NAME, OPTIONS, SAMPLER_KEYS, Strict, field_of, list_of, number_from_text, unique
from smcda._options import options
from smcda.baselines.config import BASELINES
from smcda.config import ADAPTIVE, FAN_IN, HIERARCHICAL, gain_of

SMC = "smc"
FOREIGN = {"mnist": "fashion_mnist", "fashion_mnist": "mnist"}
"""The datasets of the study, and whose test images are foreign to each."""

MOST_TRAIN, MOST_TEST = IMAGES["bundled"]
_particles, _prior, _seed = OPTIONS["particles"], OPTIONS["prior_scale"], OPTIONS["seed"]


def _one_name(scale: float | str) -> float | str:
    """Multiples of fan_in in one spelling, because they name folders and rows."""
    if not isinstance(scale, str) or scale == HIERARCHICAL:
        return scale
    gain = gain_of(scale)
    return FAN_IN if gain == 1 else f"{gain:g}*{FAN_IN}"


Particles = Annotated[int, Field(ge=_particles.at_least)]
PriorScale = Annotated[
    field_of(_prior._replace(default=0.1))[0],
    AfterValidator(_one_name),
]


Seed = Annotated[int, Field(ge=_seed.at_least, le=_seed.at_most)]
NTrain = Annotated[int, Field(ge=1, le=MOST_TRAIN)]
UNIQUE = AfterValidator(unique), Field(min_length=1)


class _Numbers(Strict):
    @model_validator(mode="before")
    @classmethod
    def _read_numbers(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        return {name: number_from_text(value) for name, value in given.items()}


_PARTICLES = list_of(Particles, [16], "numbers of particles, of networks, or of samples that are kept")
_PRIORS = list_of(PriorScale, ["fan_in"], _prior.help)

Sampler = create_model(
    "Sampler",
    __base__=_Numbers,
    __doc__="Sequential Monte Carlo, by `smcda run`.",
    kind=(Literal[SMC], Field(description="what the method is")),
    scheme=(field_of(OPTIONS["scheme"])[0], Field(ADAPTIVE, description=OPTIONS["scheme"].help)),
    kernel=field_of(OPTIONS["kernel"]),
    particles=_PARTICLES,
    prior_scales=_PRIORS,
    step_size_at=(
        int | None,
        Field(
            None,
            ge=1,
            description="training examples that step_size is for, rescaled for others so that h^2 N stays; "
            "null: not rescaled",
        ),
    ),
    **{
        name: field_of(OPTIONS[name])
        for name in (*SAMPLER_KEYS, "start", "evaluate_every")
        if name != "particles"
    },
)


def _baseline(name: str) -> Any:
    config = BASELINES[name]
    return create_model(
        config.__name__.replace("Config", ""),
        __base__=_Numbers,
        __doc__=f"`smcda baseline {name}`.",
        kind=(Literal[name], Field(description="what the method is")),
        particles=_PARTICLES,
        **({"prior_scales": _PRIORS} if config.reads_prior else {}),
        **{option.name: field_of(option) for option in options(config) if option.name != "particles"},
    )


METHODS = {SMC: Sampler} | {name: _baseline(name) for name in BASELINES}
"""The kinds of methods, and the keys of each."""

_kinds = tuple(METHODS.values())
Method = Annotated[_kinds[0] | _kinds[1] | _kinds[2], Field(discriminator="kind")]


class SmallData(_Numbers):
    """The grid: every method with all of its particles and prior scales, at every size, dataset and seed."""

    datasets: Annotated[list[Literal[tuple(FOREIGN)]], *UNIQUE] = Field(
        list(FOREIGN),
        description="bundled datasets; test images of the other one are the foreign inputs",
    )
    n_train: Annotated[list[NTrain], *UNIQUE] = Field(
        [250, 500, 1000, 2000], description="numbers of training images, the first ones"
    )
    test_images: int = Field(MOST_TEST, ge=1, le=MOST_TEST, description="test images")
    seeds: Annotated[list[Seed], *UNIQUE] = Field([_seed.default], description="seeds, one run for each")
    only: Annotated[list[str], *UNIQUE] | None = Field(
        None, description="names of the methods that are run; null: all of `methods`"
    )
    particles: Annotated[list[Particles], *UNIQUE] | None = Field(
        None, description="run methods with these of their particles only; null: with all"
    )
    prior_scales: Annotated[list[PriorScale], *UNIQUE] | None = Field(
        None, description="run methods that have a prior with these of their scales only; null: with all"
    )
    device: field_of(OPTIONS["device"])[0] = field_of(OPTIONS["device"])[1]
    seconds_per_evaluation: float | None = Field(
        None,
        gt=0,
        description="seconds per gradient of one particle and image, for time requests; null: a guess",
    )
    methods: dict[Annotated[str, Field(pattern=NAME)], Method] = Field(
        {}, description="what is compared, by name"
    )

    @model_validator(mode="after")
    def _check_names(self) -> "SmallData":
        unknown = [name for name in self.only or () if name not in self.methods]
        if unknown:
            raise ValueError(f"only names {unknown[0]!r}, but must name some of {', '.join(self.methods)}")
        return self
