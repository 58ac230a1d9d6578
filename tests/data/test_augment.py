"""Augmentations as they are used: own parameters for each image, the same bits for the same seed, types kept."""

import numpy as np
import pytest
import torch

from glws.data.augment import (
    AUGMENTATIONS,
    OPERATIONS,
    Affine,
    Chain,
    Crop,
    Cutout,
    Folded,
    Noise,
    Normalize,
    RandAugment,
    views,
)
from glws.data.augment._randaugment import MOVEMENTS, applied
from glws.errors import DataError

SHAPES = {
    "mnist": (1, 28, 28),
    "fashion_mnist": (1, 28, 28),
    "fashion_mnist_cutout": (1, 28, 28),
    "fashion_mnist_still": (1, 28, 28),
    "fashion_mnist_affine": (1, 28, 28),
    "cifar10": (3, 32, 32),
    "cifar100": (3, 32, 32),
    "stl10": (3, 96, 96),
    "imagenet100": (3, 64, 64),
    "digits": (1, 8, 8),
}
STEPS = [Crop(2), Affine(), Cutout(), RandAugment(), RandAugment(3, 7.0, varied=False)]


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def batch(number=6, shape=(3, 12, 10), seed=0):
    return torch.randint(0, 256, (number, *shape), dtype=torch.uint8, generator=seeded(seed))


def one_operation(name, **options):
    return RandAugment(1, operations=(name,), **options)


@pytest.mark.parametrize("step", STEPS, ids=lambda step: type(step).__name__)
class TestEveryStep:
    @pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.float64, torch.bfloat16])
    def test_shape_type_and_range_are_kept(self, step, dtype):
        images = batch() if dtype == torch.uint8 else (batch() / 255).to(dtype)
        result = step(images, seeded())
        assert result.shape == images.shape
        assert result.dtype == dtype
        assert result.min() >= 0
        assert result.max() <= (255 if dtype == torch.uint8 else 1)

    def test_bytes_and_floats_of_the_same_image_agree(self, step):
        from_bytes, from_floats = step(batch(), seeded()), step(batch() / 255, seeded())
        assert torch.equal((from_floats * 255).round().to(torch.uint8), from_bytes)

    def test_the_seed_decides_and_the_global_stream_stays(self, step):
        before = torch.random.get_rng_state()
        first = step(batch(), seeded(3))
        assert torch.equal(first, step(batch(), seeded(3)))
        assert not torch.equal(first, step(batch(), seeded(4)))
        assert torch.equal(torch.random.get_rng_state(), before)

    def test_each_image_has_its_own_parameters(self, step):
        same = batch(1, (3, 16, 16)).expand(24, -1, -1, -1)
        results = step(same, seeded())
        assert len({result.numpy().tobytes() for result in results}) > 12

    def test_images_do_not_look_at_each_other(self, step):
        images, others = batch(8), batch(8, seed=1)
        others[3] = images[3]
        assert torch.equal(step(images, seeded())[3], step(others, seeded())[3])

    def test_the_input_is_not_written_to(self, step):
        images = batch()
        step(images, seeded())
        assert torch.equal(images, batch())

    def test_memory_layout_does_not_matter(self, step):
        images = batch()
        last = step(images.to(memory_format=torch.channels_last), seeded())
        assert torch.equal(last, step(images, seeded()))

    def test_no_images_give_no_images(self, step):
        assert step(batch(0), seeded()).shape == (0, 3, 12, 10)

    def test_autocast_does_not_reach_inside(self, step):
        with torch.autocast("cpu", torch.bfloat16):
            inside = step(batch(), seeded())
        assert torch.equal(inside, step(batch(), seeded()))

    def test_what_is_no_batch_of_images_is_said(self, step):
        with pytest.raises(DataError, match=r"takes images \[batch, channels, height, width\], found shape \[2, 3\]"):
            step(torch.zeros(2, 3), seeded())
        with pytest.raises(DataError, match=r"takes bytes, or floats within 0..1, found torch.int64"):
            step(batch().long(), seeded())
        with pytest.raises(
            DataError, match=r"the generator is on cpu, the data on meta; create it with torch.Generator"
        ):
            step(batch().to("meta"), seeded())


class TestRandAugment:
    @pytest.mark.parametrize("name", [name for name in OPERATIONS if name not in ("autocontrast", "equalize")])
    def test_magnitude_zero_changes_nothing(self, name):
        """All but the two operations that have no magnitude."""
        assert torch.equal(one_operation(name, magnitude=0)(batch(4, (3, 40, 40)), seeded()), batch(4, (3, 40, 40)))

    @pytest.mark.parametrize("name", [name for name in OPERATIONS if name != "identity"])
    def test_every_operation_does_something(self, name):
        images = batch(16, (3, 40, 40)) // 2 + 20
        changed = (one_operation(name, varied=False)(images, seeded()) != images).flatten(1).any(1)
        assert changed.all()

    @pytest.mark.parametrize("num_ops", [1, 2, 4])
    def test_the_batch_goes_through_what_each_image_alone_goes_through(self, num_ops):
        """A batch in which every image has other operations, against those operations one after the other."""
        images, policy = batch(60, (3, 20, 20)), RandAugment(num_ops)
        is_chosen, parameters = policy.sample(images, seeded(5))
        result = policy(images, seeded(5))
        for number, image in enumerate(images):
            mine = {name: parameters[name][number].item() for name in OPERATIONS if is_chosen[name][number]}
            assert len(mine) == num_ops
            difference = (result[number].int() - one_after_the_other(mine, image).int()).abs()
            # Sums and halves in another order: contrast about a mean on the edge of two levels, rarely.
            assert difference.max() <= 2, mine
            assert (difference > 0).float().mean() < 0.05, mine

    def test_all_operations_are_chosen_equally_often_and_to_both_sides(self):
        is_chosen, parameters = RandAugment(2).sample(torch.zeros(14_000, 1, 1, 1), seeded())
        for name, (neutral, extent, both_sides) in OPERATIONS.items():
            # 2,000 expected each; 6 standard deviations of a binomial are 250.
            assert abs(is_chosen[name].sum().item() - 2000) < 250
            assert parameters[name][~is_chosen[name]].eq(neutral).all()
            drawn = (parameters[name] - neutral)[is_chosen[name]]
            assert drawn.abs().max() <= abs(extent) + 1e-4, name
            assert drawn.abs().mean().item() == pytest.approx(abs(extent) / 2, rel=0.06), name
            assert (drawn.min() * drawn.max() < 0) == both_sides, name

    def test_fixed_magnitude_is_the_same_for_all(self):
        is_chosen, parameters = one_operation("rotate", magnitude=5, varied=False).sample(batch(50), seeded())
        assert is_chosen["rotate"].all()
        assert set(parameters["rotate"].tolist()) == {-15.0, 15.0}

    def test_the_order_in_which_operations_are_named_does_not_matter(self):
        there, back = ("rotate", "posterize", "equalize"), ("equalize", "rotate", "posterize")
        first, second = (RandAugment(2, operations=names)(batch(), seeded()) for names in (there, back))
        assert torch.equal(first, second)

    def test_no_operations_give_the_images_back(self):
        assert torch.equal(RandAugment(0)(batch(), seeded()), batch())

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"magnitude": 11}, "magnitude of RandAugment must be within 0..10, found 11"),
            ({"num_ops": -1}, "cannot choose -1 distinct operations among 14"),
            ({"num_ops": 2, "operations": ("rotate", "rotate")}, "cannot choose 2 distinct operations among 1"),
            ({"operations": ()}, "cannot choose 2 distinct operations among 0"),
            ({"operations": ("rotat",)}, r"no operation is called 'rotat'; did you mean 'rotate'\?"),
            ({"operations": ("zzz",)}, "no operation is called 'zzz'; there is identity, autocontrast"),
        ],
    )
    def test_what_it_cannot_do_is_said(self, options, message):
        with pytest.raises(DataError, match=message):
            RandAugment(**options)


def one_after_the_other(parameters, image):
    """Each operation with nothing else, in the order of the table; but all movements are one."""
    levels = image[None].float()
    values = {name: torch.tensor([value]) for name, value in parameters.items()}
    movements = {name: value for name, value in values.items() if name in MOVEMENTS}
    for part in [*({name: value} for name, value in values.items() if name not in MOVEMENTS), movements]:
        levels = applied(levels, {name: torch.tensor([True]) for name in part}, part, 127)
    return levels.to(torch.uint8)[0]


class TestCrop:
    def test_without_flips_nothing_is_mirrored(self):
        """A bright column left of a dark one stays left of it."""
        images = torch.zeros(64, 1, 20, 20, dtype=torch.uint8)
        images[..., 8], images[..., 11] = 200, 100
        for flip, expected in ((False, {True}), (True, {True, False})):
            results = Crop(2, flip=flip)(images, seeded())[:, 0, 10].int()
            assert {bool(row.argmax() < (row == 100).int().argmax()) for row in results} == expected

    def test_all_offsets_occur(self):
        images = torch.arange(20).view(1, 1, 1, 20).expand(500, 1, 20, 20).to(torch.uint8)
        columns = Crop(3, flip=False)(images, seeded())[:, 0, 0, 10]
        assert set(columns.tolist()) == {7, 8, 9, 10, 11, 12, 13}

    def test_no_padding_gives_the_images(self):
        assert torch.equal(Crop(0, flip=False)(batch(), seeded()), batch())

    def test_a_padding_beyond_the_image_is_said(self):
        with pytest.raises(DataError, match=r"a padding of 10 does not fit images of shape \[3, 12, 10\]"):
            Crop(10)(batch(), seeded())


class TestTables:
    def test_nothing_asked_for_nothing_done(self):
        table = torch.randn(5, 4, generator=seeded())
        for view in (views("tables").weak, views("tables").strong, views("tables").plain):
            assert torch.equal(view(table, seeded()), table)

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    def test_noise_has_its_scale(self, dtype):
        noisy = Noise(0.3)(torch.ones(200, 100, dtype=dtype), seeded())
        assert noisy.dtype == dtype
        assert noisy.std().item() == pytest.approx(0.3, rel=0.02)
        assert torch.equal(noisy, Noise(0.3)(torch.ones(200, 100, dtype=dtype), seeded()))

    def test_noise_on_bytes_is_refused(self):
        with pytest.raises(DataError, match=r"noise is added to floats, found torch.uint8; normalize first"):
            Noise(0.1)(batch(), seeded())

    def test_rows_of_pixels_are_moved_as_images(self):
        rows = (batch(5, (1, 8, 8)) / 255).flatten(1)
        folded = Folded(Affine(), (1, 8, 8))
        assert torch.equal(folded(rows, seeded()), Affine()(rows.view(5, 1, 8, 8), seeded()).flatten(1))
        assert folded(rows.view(5, 1, 8, 8), seeded()).shape == (5, 1, 8, 8)
        with pytest.raises(DataError, match=r"rows of 63 numbers are not images of shape \[1, 8, 8\]"):
            folded(rows[:, 1:], seeded())


class TestNormalize:
    def test_against_numpy(self):
        images, mean, std = batch(), (0.1, 0.5, 0.9), (0.2, 0.3, 0.4)
        expected = (images.numpy() / 255 - np.reshape(mean, (3, 1, 1))) / np.reshape(std, (3, 1, 1))
        for given in (images, images / 255):
            np.testing.assert_allclose(Normalize(mean, std)(given).numpy(), expected, atol=1e-5)

    def test_columns_of_a_table_and_one_for_all(self):
        table = torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.float64)
        assert Normalize((1.0, 2.0), (2.0, 1.0))(table).tolist() == [[0, 0], [1, 2]]
        assert Normalize((1.0,), (0.5,))(table).tolist() == [[0, 2], [4, 6]]
        assert Normalize()(table) is table
        assert Normalize()(batch()).max() <= 1

    def test_doubles_stay_doubles(self):
        table = torch.tensor([[1.1], [2.3]], dtype=torch.float64)
        expected = (table - 0.7) / 0.3
        torch.testing.assert_close(Normalize((0.7,), (0.3,))(table), expected, rtol=1e-14, atol=1e-14)

    def test_what_does_not_fit_is_said(self):
        with pytest.raises(DataError, match="2 means for 3 channels or columns"):
            Normalize((0.1, 0.2), (1.0, 1.0))(batch())
        with pytest.raises(DataError, match=r"each mean needs a std above 0, found mean \(0.1,\) and std \(0.0,\)"):
            Normalize((0.1,), (0.0,))


class TestDefaults:
    def test_every_data_set_has_views(self):
        assert set(AUGMENTATIONS) == {*SHAPES, "tables"}

    @pytest.mark.parametrize("name", SHAPES)
    def test_views_are_normalized_floats(self, name):
        images, look = batch(8, SHAPES[name]), views(name)
        for view in (look.weak, look.strong, look.plain):
            result = view(images, seeded())
            assert result.shape == images.shape
            assert result.dtype == torch.float32
            assert torch.equal(result, view(images, seeded()))
            assert result.isfinite().all()
        # The weak view only moves pixels about; its values are those of the plain view, up to the mix of neighbors.
        assert look.weak(images, seeded()).min() >= look.plain(images, seeded()).min() - 1e-5

    def test_digits_are_taken_as_rows_too(self):
        rows = torch.rand(4, 64, generator=seeded())
        assert views("digits").strong(rows, seeded()).shape == (4, 64)

    def test_digits_are_never_mirrored_or_inverted(self):
        for name in ("mnist", "digits"):
            black = torch.zeros(32, *SHAPES[name], dtype=torch.uint8)
            for view in (views(name).weak, views(name).strong):
                assert torch.equal(view(black, seeded()), views(name).plain(black, seeded()))
        assert views("mnist").weak.steps[0] == Crop(2, flip=False)

    def test_cutout_of_a_fixed_share(self):
        cut = Cutout(0.5, varied=False, fill=0)(torch.full((400, 1, 16, 16), 9, dtype=torch.uint8), seeded())
        missing = (cut == 0).sum((1, 2, 3))
        assert 49 <= missing.max() <= 64
        assert missing.min() >= 16 - 7

    def test_chains_and_steps_are_values(self):
        assert Chain((Crop(2), Cutout())) == Chain((Crop(2), Cutout()))
        assert hash(views("cifar10")) == hash(views("cifar10"))

    def test_an_unknown_name_gets_the_nearest(self):
        with pytest.raises(DataError, match=r"no augmentation is called 'cifar-10'; did you mean 'cifar10'\?"):
            views("cifar-10")
        with pytest.raises(DataError, match="there is mnist, fashion_mnist"):
            views("x")
