"""The largest eigenvalue of a Hessian, where it is known."""

import jax
import jax.numpy as jnp
import pytest
from measure_curvature import largest_eigenvalue


@pytest.mark.parametrize("eigenvalues", [(0.5, 5.0, -2.0), (0.5, 3.0, -5.0)])
def test_the_eigenvalue_of_largest_magnitude_is_found_with_its_sign(eigenvalues):
    rotation, _ = jnp.linalg.qr(jax.random.normal(jax.random.key(0), (3, 3)))
    hessian = rotation @ jnp.diag(jnp.array(eigenvalues)) @ rotation.T

    def loss(x):
        return x @ hessian @ x / 2 + x.sum()

    value, vector = largest_eigenvalue(loss, jnp.ones(3), jnp.array([1.0, 2.0, 3.0]))
    expected = max(eigenvalues, key=abs)
    assert value == pytest.approx(expected, rel=1e-3)
    assert jnp.allclose(hessian @ vector, expected * vector, rtol=1e-2, atol=1e-2)
