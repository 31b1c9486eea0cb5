"""Every schedule against its formula, written out here a second time and in another way."""

import math
from fractions import Fraction

import numpy as np
import pytest

from smcda.smc.schedules import ScheduleArgs
from smcda.smc.schedules.fixed import FIXED, windows

PUBLISHED = ScheduleArgs(iterations=200, n_data=60_000, batch_size=500, initial_batch=500)
ODD = ScheduleArgs(iterations=7, n_data=1_010, batch_size=100, initial_batch=200)
UNEQUAL = ScheduleArgs(iterations=40, n_data=1_010, batch_size=30, initial_batch=50)


def formula(scheme, args, k):
    """M_k in exact arithmetic."""
    early = k < Fraction(9, 10) * args.iterations
    n, kappa, first = args.n_data, args.batch_size, args.initial_batch
    if scheme == "constant" or (scheme == "constant_to_refine" and early):
        return first
    if scheme == "linear" and early:
        return min(first + kappa * k, n)
    if scheme == "automated" and early:
        slope = math.floor((n - first) / (Fraction(9, 10) * args.iterations))
        return min(first + kappa * math.floor(Fraction(slope * k, kappa) + Fraction(1, 2)), n)
    return n


@pytest.mark.parametrize("args", [PUBLISHED, ODD, UNEQUAL])
@pytest.mark.parametrize("scheme", FIXED)
def test_every_iteration_uses_as_much_data_as_the_formula_says(scheme, args):
    expected = [formula(scheme, args, k) for k in range(args.iterations)]
    assert FIXED[scheme](args).size.tolist() == expected


def test_published_schedules_pass_through_known_points():
    linear = FIXED["linear"](PUBLISHED).size
    assert (linear[0], linear[1], linear[118], linear[119]) == (500, 1_000, 59_500, 60_000)
    automated = FIXED["automated"](PUBLISHED).size
    # floor(59,500 / 180) = 330 images per iteration: 830 rounds to 1,000, 1,160 to 1,000, 1,490 to 1,500.
    assert automated[:4].tolist() == [500, 1_000, 1_000, 1_500]
    assert (automated[179], automated[180]) == (59_500, 60_000)
    refine = FIXED["constant_to_refine"](PUBLISHED).size
    assert (refine[179], refine[180]) == (500, 60_000)


def test_odd_schedules_by_hand():
    assert FIXED["linear"](ODD).size.tolist() == [200, 300, 400, 500, 600, 700, 800]
    # floor(810 / 6.3) = 128: 328 -> 300, 456 -> 500, 584 -> 600, 712 -> 700, 840 -> 800, 968 -> 1,000
    assert FIXED["automated"](ODD).size.tolist() == [200, 300, 500, 600, 700, 800, 1_000]


def test_a_share_of_iterations_that_floating_point_misses_does_not_delay_refinement():
    args = ScheduleArgs(iterations=10, n_data=100, batch_size=10, initial_batch=10, refine_from=0.7)
    assert 0.7 * 10 > 7 - 1e-12
    assert FIXED["constant_to_refine"](args).size.tolist() == [10] * 7 + [100] * 3


def test_only_schemes_with_a_constant_phase_take_fresh_examples():
    fresh = {name: scheme(PUBLISHED).fresh for name, scheme in FIXED.items()}
    assert fresh["constant"].all()
    assert fresh["constant_to_refine"][:180].all()
    assert not fresh["constant_to_refine"][180:].any()
    assert not any(fresh[name].any() for name in ("full_batch", "linear", "automated"))


@pytest.mark.parametrize("args", [PUBLISHED, ODD, UNEQUAL])
@pytest.mark.parametrize("scheme", FIXED)
def test_windows_hold_what_the_schedule_says_and_split_off_only_what_is_new(scheme, args):
    plan = FIXED[scheme](args)
    table = windows(plan, args.n_data)
    start, split, stop = (np.asarray(column) for column in (table.start, table.split, table.stop))
    np.testing.assert_array_equal(stop - start, plan.size)
    assert np.all(np.asarray(table.beta) == 1)
    for k in range(1, args.iterations):
        if plan.fresh[k]:
            assert start[k] == split[k] == k * args.initial_batch % args.n_data
        elif stop[k] > stop[k - 1] and not plan.fresh[k - 1]:
            assert (start[k], split[k]) == (0, stop[k - 1])
        elif not plan.fresh[k - 1]:
            assert (start[k], split[k], stop[k]) == (start[k - 1], split[k - 1], stop[k - 1])
        else:
            assert (start[k], split[k]) == (0, 0)


def test_fresh_examples_come_without_replacement_epoch_by_epoch():
    table = windows(FIXED["constant"](UNEQUAL), UNEQUAL.n_data)
    seen = np.concatenate([np.arange(a, b) for a, b in zip(table.start, table.stop, strict=True)])
    np.testing.assert_array_equal(seen % UNEQUAL.n_data, np.arange(len(seen)) % UNEQUAL.n_data)
