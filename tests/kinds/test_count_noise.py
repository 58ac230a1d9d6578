"""Noisy counts as privacy systems release them: the noise, rounding, clipping, and what people get wrong."""

import math

import pytest
import torch
from scipy import stats

from glws.data import WeakDataset, read_table
from glws.errors import DataError
from glws.kinds import NoisyProportions, Proportions
from glws.kinds._count_noise import CountNoise

NUMBERS = torch.arange(6).double()
WAYS = [
    (kernel, rounded, clip)
    for kernel in ("laplace", "gaussian", "geometric")
    for rounded in (False, True)
    for clip in (None, (0.0, 4.0), (0.0, math.inf))
]


@pytest.mark.parametrize(("kernel", "rounded", "clip"), WAYS)
def test_what_is_released_has_its_likelihood(kernel: str, rounded: bool, clip: tuple[float, float] | None) -> None:
    """The share of many releases that fall near a value, or on it, is what the likelihood says."""
    noise = CountNoise(kernel, rounded, clip)  # type: ignore[arg-type]
    scale, truth = torch.tensor(1.3, dtype=torch.float64), 2.0
    released = noise.draw(torch.full((40_000,), truth), 1.3, torch.Generator().manual_seed(3))
    for value in (0.0, 1.0, 4.0, 5.0):
        likelihood = float(noise.log_likelihood(torch.tensor(value), torch.tensor(truth), scale).exp())
        is_point = rounded or kernel == "geometric" or (clip is not None and value in clip)
        if clip is not None and value > clip[1]:
            continue
        near = (released - value).abs() < (1e-9 if is_point else 0.05)
        share = float(near.double().mean()) / (1 if is_point else 0.1)
        assert share == pytest.approx(likelihood, abs=0.012 if is_point else 0.04)


def test_densities_are_those_of_the_textbook() -> None:
    observed, scale = torch.tensor(2.37), torch.tensor(0.8)
    laplace = CountNoise("laplace").log_likelihood(observed, NUMBERS, scale)
    assert laplace.tolist() == pytest.approx(stats.laplace.logpdf(2.37 - NUMBERS.numpy(), scale=0.8), abs=1e-6)
    gaussian = CountNoise("gaussian").log_likelihood(observed, NUMBERS, scale)
    assert gaussian.tolist() == pytest.approx(stats.norm.logpdf(2.37 - NUMBERS.numpy(), scale=0.8), abs=1e-6)


@pytest.mark.parametrize("kernel", ["laplace", "gaussian"])
def test_all_values_of_a_rounded_and_clipped_release_sum_to_one(kernel: str) -> None:
    noise = CountNoise(kernel, True, (0.0, 9.0))  # type: ignore[arg-type]
    values = torch.arange(10).double()[:, None]
    total = noise.log_likelihood(values, NUMBERS, torch.tensor(2.0)).exp().sum(0)
    assert total.tolist() == pytest.approx([1.0] * 6, abs=1e-12)


def test_far_tails_stay_finite() -> None:
    noise = CountNoise("gaussian", True, (0.0, math.inf))
    found = noise.log_likelihood(torch.tensor([0.0, 1e6]), torch.tensor([1e6, 0.0]), torch.tensor(1.0))
    assert bool(found.isfinite().all())


def test_epsilon_is_a_scale() -> None:
    by_epsilon = NoisyProportions.of([2.5], kernel="laplace", epsilon=0.5, sensitivity=2)
    assert float(by_epsilon.scale) == 4.0
    assert float(NoisyProportions.of([2.5], kernel="gaussian", epsilon=1.0, delta=1e-5).scale) == pytest.approx(
        4.8448, abs=1e-4
    )


def test_the_scale_of_gaussian_noise_is_learned() -> None:
    generator = torch.Generator().manual_seed(1)
    labels = (torch.rand(4000, 6, generator=generator) < 0.5).long()
    weak = NoisyProportions.from_labels(labels, kernel="gaussian", scale=1.5, generator=generator)
    log_probs = torch.full((4000, 6, 2), 1e-9, dtype=torch.float64).scatter(2, labels[:, :, None], 1.0).log()
    found = NoisyProportions.of(weak.observed, 3.0, "gaussian").m_step(weak.infer(log_probs))
    assert float(found.scale) == pytest.approx(1.5, abs=0.05)


def described(tmp_path, cells, options, kind="noisy_proportions"):  # type: ignore[no-untyped-def]
    rows = [f"{number},{cell},{number}.5" for number, cell in enumerate(cells)]
    (tmp_path / "t.csv").write_text("\n".join(["g,w,f", *rows]))
    about = {"data": str(tmp_path / "t.csv"), "features": "f", "classes": 2, "kind": kind, "group": "g"}
    return read_table({**about, "weak": {"count": "w"}, "options": options}).supervision()


def test_a_privacy_system_is_two_options(tmp_path) -> None:  # type: ignore[no-untyped-def]
    weak = described(tmp_path, ["-0.31", "1.9"], {"mechanism": "laplace", "epsilon": 1})
    assert (weak.kernel, float(weak.scale), weak.observed.tolist()) == ("laplace", 1.0, [-0.31, 1.9])


def test_groups_may_overlap() -> None:
    """An instance in two groups: the losses of both groups reach it."""
    weak = NoisyProportions.of([1.8, 0.4, 2.2], kernel="laplace", epsilon=2)
    data = WeakDataset(torch.zeros(4, 1), [[0, 1, 2], [2, 3], [0, 1, 2, 3]], weak)
    (batch,) = data.batches(1)
    assert len(batch.instances) == 4
    assert batch.parts[0].lengths.tolist() == [3, 2, 4]


MISTAKES = {
    "neither epsilon nor scale": ({}, "noisy counts need options: {epsilon: 1} or {scale: 1.0}, one of them"),
    "both epsilon and scale": ({"epsilon": 1, "scale": 1}, "one of them; found both"),
    "gaussian without delta": ({"mechanism": "gaussian", "epsilon": 1}, "needs delta too, as in {epsilon: 1, delta"),
    "an unknown mechanism": ({"mechanism": "gauss", "epsilon": 1}, "kernel must be one of geometric, laplace"),
    "epsilon of 0": ({"epsilon": 0}, "epsilon must be above 0, found 0"),
    "clip as a number": ({"mechanism": "laplace", "epsilon": 1, "clip": 0}, "such as [0, 100] or [0, null], found 0"),
    "clip upside down": ({"mechanism": "laplace", "epsilon": 1, "clip": [5, 0]}, "a range from low to high"),
    "counts outside the clip": ({"mechanism": "laplace", "epsilon": 1, "clip": [0, 1]}, "must be within 0 and 1"),
    "fractions for whole noise": ({"epsilon": 1}, 'kernel="laplace" and "gaussian" take fractions'),
    "fractions that were rounded": ({"mechanism": "laplace", "epsilon": 1, "rounded": True}, "rounded counts must"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_gets_one_line_that_says_what_to_write(tmp_path, name: str) -> None:  # type: ignore[no-untyped-def]
    options, message = MISTAKES[name]
    with pytest.raises(DataError) as caught:
        described(tmp_path, ["1", "2.5"], options)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("cell", ["1.7", "-2"])
def test_noisy_counts_as_exact_ones_name_the_kind_that_takes_them(tmp_path, cell: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(DataError, match=r"noisy_proportions, as in options: \{mechanism: laplace, epsilon: 1\}"):
        described(tmp_path, ["1", cell], {}, "proportions")


def test_in_python_too() -> None:
    with pytest.raises(DataError, match=r"found 1\.5; .* counts with noise NoisyProportions\.of"):
        Proportions.of([1.5])


def test_clipped_counts_do_not_tell_the_scale() -> None:
    weak = NoisyProportions.of([0.0, 2.0], kernel="laplace", epsilon=1, clip=[0, None])
    with pytest.raises(DataError, match="cannot be learned from clipped counts; say epsilon or scale"):
        weak.m_step(weak.infer(torch.full((2, 3, 2), 0.5).log()))
