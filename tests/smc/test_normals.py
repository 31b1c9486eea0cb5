import jax
import numpy as np
import pytest

from smcda.smc.normals import bits, normal


@pytest.mark.parametrize("shape", [(4, 61_706), (3,), (2, 5, 3)])
def test_numbers_are_those_of_jax_bit_for_bit(shape):
    key = jax.random.fold_in(jax.random.key(3), 7)
    np.testing.assert_array_equal(bits(key, shape), jax.random.bits(key, shape))
    drawn = jax.jit(normal, static_argnums=1)(key, shape)
    np.testing.assert_array_equal(drawn, jax.random.normal(key, shape))


def test_numbers_of_another_generator_are_jax_s_own():
    key = jax.random.key(1, impl="rbg")
    np.testing.assert_array_equal(normal(key, (5,)), jax.random.normal(key, (5,)))


def test_keys_of_several_runs_at_once_give_what_each_gives_alone():
    keys = jax.random.split(jax.random.key(0), 3)
    together = jax.vmap(lambda key: normal(key, (5,)))(keys)
    np.testing.assert_array_equal(together, [normal(key, (5,)) for key in keys])
