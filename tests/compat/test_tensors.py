"""Tensors that NumPy or torch cannot read are converted, or named in an error, in every function."""

from __future__ import annotations

import numpy as np
import pytest

from fastmcmd._base.checks import as_array
from fastmcmd.compat import probcal

torch = pytest.importorskip("torch")

ROWS = torch.tensor([[0.0, 0.5], [1.0, -0.5], [0.25, 2.0]])
KERNELS = [probcal.rbf_kernel, probcal.laplacian_kernel, probcal.polynomial_kernel]
READABLE = {
    "quantized": lambda a: torch.quantize_per_tensor(a, 0.25, 8, torch.quint8),
    "half": lambda a: a.half(),
    "bfloat16": lambda a: a.bfloat16(),
    "double": lambda a: a.double(),
    "gradient": lambda a: a.clone().requires_grad_(),
    "negated view": lambda a: torch.complex(a * 0, -a).conj().imag,
}
REFUSED = {
    "meta": (lambda a: a.to("meta"), TypeError, "meta"),
    "sparse": (lambda a: a.to_sparse(), TypeError, "sparse"),
    "complex": (lambda a: torch.complex(a, a), TypeError, "complex"),
    "NaN": (lambda a: a * torch.nan, ValueError, "NaN"),
    "empty": (lambda a: a[:0], ValueError, "empty|no rows"),
}


@pytest.mark.filterwarnings("ignore:quantize_per_tensor|.*quantiz")
@pytest.mark.parametrize("name", READABLE)
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.__name__)
def test_unusual_tensors_are_read(kernel, name):
    """A quantized tensor reached torch.cdist, whose error named no argument."""
    expected = kernel(ROWS, ROWS).numpy()
    for x, z in ((READABLE[name](ROWS), ROWS), (ROWS, READABLE[name](ROWS))):
        np.testing.assert_allclose(kernel(x, z).detach().numpy(), expected, rtol=1e-5)
    assert kernel(ROWS.long(), ROWS.long()).dtype == torch.float64


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.__name__)
def test_tensors_without_rows_of_numbers_are_named(kernel, name):
    make, kind, message = REFUSED[name]
    with pytest.raises(kind, match=rf"^x (is|has|holds).*({message})"):
        kernel(make(ROWS), ROWS)
    with pytest.raises(kind, match=rf"^x_prime (is|has|holds).*({message})"):
        kernel(ROWS, make(ROWS))


def test_a_width_that_is_a_tensor():
    width = torch.tensor(0.5, requires_grad=True)
    probcal.rbf_kernel(ROWS, ROWS, width).sum().backward()
    assert torch.isfinite(width.grad)
    for bad in (ROWS, torch.tensor(-1.0), torch.tensor(torch.nan), ROWS.to("meta")):
        with pytest.raises((ValueError, TypeError), match=r"^gamma is"):
            probcal.rbf_kernel(ROWS, ROWS, bad)


@pytest.mark.filterwarnings("ignore:quantize_per_tensor|.*quantiz")
def test_what_a_function_returns_is_read_by_the_same_converter():
    """A kernel that returned bfloat16 was read; one that returned a negated view raised an error."""
    x = ROWS[:, 0]
    grid = torch.tensor([0.5])
    plain = probcal.compute_mcmd_torch(grid, x, x, x, x + 1, probcal.rbf_kernel, probcal.rbf_kernel)
    for name in ("half", "negated view", "gradient"):

        def kernel(a, b, name=name):
            return READABLE[name](torch.exp(-((a - b.T) ** 2)))

        from_samples = probcal.compute_mcmd_torch(grid, x, x, x, x + 1, kernel, probcal.rbf_kernel)
        np.testing.assert_allclose(from_samples.numpy(), plain.numpy(), rtol=2e-2)
    with pytest.raises(TypeError, match="x_kernel returned is a sparse tensor"):
        probcal.compute_mcmd_torch(
            grid, x, x, x, x, lambda a, b: (a @ b.T).to_sparse(), probcal.rbf_kernel
        )


@pytest.mark.filterwarnings("ignore:quantize_per_tensor|.*quantiz")
@pytest.mark.parametrize("name", READABLE)
def test_arrays_of_tensors(name):
    np.testing.assert_array_equal(as_array(READABLE[name](ROWS), "y"), ROWS.numpy())
