"""Each elementary operation against a slow obvious version for one image, and against Pillow where that has it."""

import math

import numpy as np
import pytest
import torch

from glws.data.augment import _photometric as photometric
from glws.data.augment._geometry import Movement, cropped, cut_out, moved
from glws.data.augment._levels import from_levels, to_levels

FACTORS = torch.tensor([0.0, 0.25, 1.0, 1.5, 1.875])
"""Binary fractions, so that float32 and float64 agree to the last level."""


def pictures(channels=3, height=7, width=6, seed=0):
    """Five images: noise, dark noise, two levels, one level, a ramp."""
    rng = np.random.default_rng(seed)
    shape = (channels, height, width)
    images = [rng.integers(0, 256, shape), rng.integers(3, 40, shape), rng.choice([10, 200], shape), np.full(shape, 77)]
    images.append(np.linspace(0, 255, math.prod(shape)).reshape(shape).astype(int))
    return np.stack(images).astype(np.float64)


def tensor(images):
    return torch.tensor(images, dtype=torch.float32)


def by_table(images, operation, *parameters):
    levels = tensor(images)
    return photometric.looked_up(levels, operation(photometric.identity_tables(levels), *parameters))


def equalized_tables(levels):
    return photometric.equalized(photometric.histograms(levels), levels.amax((2, 3)))


def mean_gray(images):
    levels = tensor(images)
    return photometric.mean_gray(
        photometric.histograms(levels), photometric.identity_tables(levels), levels[0, 0].numel()
    )


def shifted(images, movement, fill):
    return moved(images, movement.looking_back(images), fill)


def assert_same(ours, expected):
    np.testing.assert_array_equal(ours.numpy(), np.stack(expected))


def gray_of(image):
    if len(image) != 3:
        return image.mean(0)
    return 0.299 * image[0] + 0.587 * image[1] + 0.114 * image[2]


def nearest_levels(values):
    return np.clip(np.round(values), 0, 255)


@pytest.mark.parametrize("channels", [1, 3])
class TestPixelValues:
    def test_brightness(self, channels):
        images = pictures(channels)
        expected = [nearest_levels(image * factor) for image, factor in zip(images, FACTORS.numpy(), strict=True)]
        assert_same(by_table(images, photometric.brightness, FACTORS), expected)

    def test_contrast(self, channels):
        images = pictures(channels)
        middles = [np.round(gray_of(image).mean()) for image in images]
        parts = zip(images, middles, FACTORS.numpy(), strict=True)
        expected = [nearest_levels(middle + factor * (image - middle)) for image, middle, factor in parts]
        ours = by_table(images, photometric.contrast, FACTORS, mean_gray(images))
        assert_same(ours, expected)

    def test_posterize(self, channels):
        images, bits = pictures(channels), [8, 4, 5.4, 1, 6.6]
        expected = [
            image.astype(int) >> (8 - round(kept)) << (8 - round(kept))
            for image, kept in zip(images, bits, strict=True)
        ]
        assert_same(by_table(images, photometric.posterize, torch.tensor(bits)), expected)

    def test_solarize(self, channels):
        images, thresholds = pictures(channels), [256.0, 0.0, 128.0, 77.0, 99.5]
        expected = [np.where(image >= t, 255 - image, image) for image, t in zip(images, thresholds, strict=True)]
        assert_same(by_table(images, photometric.solarize, torch.tensor(thresholds)), expected)

    def test_autocontrast(self, channels):
        images, chosen = pictures(channels), [True, True, False, True, True]

        def stretched(channel):
            low, high = int(channel.min()), int(channel.max())
            return channel if high == low else (channel - low) * 255 // (high - low)

        expected = [
            np.stack([stretched(channel) for channel in image]) if is_chosen else image
            for image, is_chosen in zip(images, chosen, strict=True)
        ]
        darkest, brightest = tensor(images).flatten(2).aminmax(dim=2)
        assert_same(by_table(images, photometric.autocontrast, torch.tensor(chosen), darkest, brightest), expected)

    @pytest.mark.parametrize("side", [7, 40])
    def test_equalize(self, channels, side):
        images = pictures(channels, side, side)

        def spread(channel):
            values = channel.astype(int).ravel().tolist()
            step = sum(value != max(values) for value in values) // 255
            if step == 0:
                return channel
            below = [sum(other < value for other in values) for value in range(256)]
            table = [min(255, (step // 2 + number) // step) for number in below]
            return np.array([table[value] for value in values]).reshape(channel.shape)

        levels = tensor(images)
        ours = photometric.looked_up(levels, equalized_tables(levels))
        assert_same(ours, [np.stack([spread(channel) for channel in image]) for image in images])

    def test_histograms(self, channels):
        images = pictures(channels)
        expected = [[np.bincount(channel.astype(int).ravel(), minlength=256) for channel in image] for image in images]
        assert_same(photometric.histograms(tensor(images)), expected)

    def test_saturation(self, channels):
        images = pictures(channels)
        parts = zip(images, FACTORS.numpy(), strict=True)
        expected = [nearest_levels(gray_of(image) + factor * (image - gray_of(image))) for image, factor in parts]
        difference = np.abs(photometric.saturation(tensor(images), FACTORS).numpy() - np.stack(expected))
        # The weights of gray are no binary fractions: where float64 is within 1e-4 of a half, float32 may fall off it.
        assert difference.max() <= 1
        assert (difference > 0).mean() < 0.01

    def test_sharpness(self, channels):
        images = pictures(channels)
        ours = photometric.sharpness(tensor(images), FACTORS).numpy()
        difference = np.abs(ours - np.stack([sharpened(*part) for part in zip(images, FACTORS.numpy(), strict=True)]))
        # Division by 9 and by 13 in another order: a half may fall the other way.
        assert difference.max() <= 1
        assert (difference > 0).mean() < 0.01


def sharpened(image, factor):
    result = image.copy()
    weights = np.array([[1, 1, 1], [1, 5, 1], [1, 1, 1]]) / 13
    for channel in range(image.shape[0]):
        for y in range(1, image.shape[1] - 1):
            for x in range(1, image.shape[2] - 1):
                smooth = (image[channel, y - 1 : y + 2, x - 1 : x + 2] * weights).sum()
                result[channel, y, x] = nearest_levels(smooth + factor * (image[channel, y, x] - smooth))
    return result


def test_images_too_small_to_have_an_inside_are_not_sharpened():
    images = tensor(pictures(height=2))
    assert torch.equal(photometric.sharpness(images, FACTORS), images)


class TestPillow:
    """Pillow truncates where we round, and rounds in between: one level, or two where contrast doubles an error."""

    def compare(self, ours, pillow_operation, images, slack=1):
        pillow = pytest.importorskip("PIL.Image")
        for result, image, number in zip(ours.numpy(), images, range(len(images)), strict=True):
            picture = pillow.fromarray(image.astype(np.uint8).transpose(1, 2, 0))
            expected = np.asarray(pillow_operation(picture, number), dtype=float).transpose(2, 0, 1)
            assert np.abs(result - expected).max() <= slack

    @pytest.mark.parametrize("name", ["brightness", "contrast"])
    def test_enhancements_by_table(self, name):
        enhance, images = pytest.importorskip("PIL.ImageEnhance"), pictures(height=20, width=20)
        extra = (mean_gray(images),) if name == "contrast" else ()
        ours = by_table(images, getattr(photometric, name), FACTORS, *extra)
        operation = getattr(enhance, name.capitalize())
        self.compare(ours, lambda picture, number: operation(picture).enhance(FACTORS[number].item()), images, 2)

    @pytest.mark.parametrize(("name", "theirs"), [("saturation", "Color"), ("sharpness", "Sharpness")])
    def test_enhancements_by_blending(self, name, theirs):
        enhance, images = pytest.importorskip("PIL.ImageEnhance"), pictures(height=20, width=20)
        ours = getattr(photometric, name)(tensor(images), FACTORS)
        operation = getattr(enhance, theirs)
        self.compare(ours, lambda picture, number: operation(picture).enhance(FACTORS[number].item()), images, 2)

    def test_equalize_autocontrast_solarize_posterize(self):
        ops, images = pytest.importorskip("PIL.ImageOps"), pictures(height=40, width=40)
        levels = tensor(images)
        ours = photometric.looked_up(levels, equalized_tables(levels))
        self.compare(ours, lambda picture, _: ops.equalize(picture), images, 0)
        ends = levels.flatten(2).aminmax(dim=2)
        ours = by_table(images, photometric.autocontrast, torch.ones(5, dtype=torch.bool), *ends)
        self.compare(ours, lambda picture, _: ops.autocontrast(picture), images)
        ours = by_table(images, photometric.solarize, torch.full((5,), 100.0))
        self.compare(ours, lambda picture, _: ops.solarize(picture, 100), images, 0)
        ours = by_table(images, photometric.posterize, torch.full((5,), 3.0))
        self.compare(ours, lambda picture, _: ops.posterize(picture, 3), images, 0)


def moved_slowly(image, degrees, scale, shear_x, shear_y, right, down, fill):
    """Where each pixel of the image goes is a matrix; each pixel of the result looks back through its inverse."""
    _, height, width = image.shape
    cosine, sine = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    turn, shear = np.array([[cosine, sine], [-sine, cosine]]), np.array([[1, shear_x], [shear_y, 1]])
    back = np.linalg.inv(turn @ shear * scale)
    result = np.empty_like(image)
    for y in range(height):
        for x in range(width):
            place = np.array([x - (width - 1) / 2 - right * width, y - (height - 1) / 2 - down * height])
            source_x, source_y = back @ place + [(width - 1) / 2, (height - 1) / 2]
            result[:, y, x] = between_pixels(image, source_x, source_y, fill)
    return result


def between_pixels(image, x, y, fill):
    _, height, width = image.shape
    total = 0.0
    for row in (math.floor(y), math.floor(y) + 1):
        for column in (math.floor(x), math.floor(x) + 1):
            inside = 0 <= row < height and 0 <= column < width
            value = image[:, row, column] if inside else fill
            total = total + value * (1 - abs(y - row)) * (1 - abs(x - column))
    return total


class TestMovement:
    @pytest.mark.parametrize("channels", [1, 3])
    def test_against_the_slow_version(self, channels):
        images, rng = pictures(channels, height=8, width=11), np.random.default_rng(4)
        drawn = rng.uniform(-1, 1, (6, 5)) * np.array([[40], [0.2], [0.3], [0.3], [0.3], [0.3]])
        drawn[1] += 1
        ours = shifted(tensor(images), Movement(*torch.tensor(drawn, dtype=torch.float32)), fill=50)
        expected = np.stack([moved_slowly(image, *column, 50) for image, column in zip(images, drawn.T, strict=True)])
        # Places in float32 are good to 1e-6 pixels of at most 255 levels each.
        np.testing.assert_allclose(ours.numpy(), expected, atol=5e-3)

    def test_a_quarter_turn_is_counter_clockwise(self):
        images = tensor(pictures(height=7, width=7))
        ours = shifted(images, Movement(degrees=torch.full((5,), 90.0)), 0)
        assert torch.equal(ours.round(), images.rot90(1, (2, 3)))

    def test_shifts_go_right_and_down(self):
        images = tensor(pictures(height=8, width=10))
        ours = shifted(images, Movement(right=torch.full((5,), 0.2), down=torch.full((5,), 0.125)), 9).round()
        assert torch.equal(ours[:, :, 1:, 2:], images[:, :, :-1, :-2])
        assert ours[:, :, 0].eq(9).all()
        assert ours[:, :, :, :2].eq(9).all()

    def test_no_movement_changes_nothing(self):
        images = tensor(pictures(height=33, width=17))
        assert torch.equal(shifted(images, Movement(), 127).round(), images)


class TestFetching:
    @pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.float64, torch.bfloat16])
    def test_crop_is_reflect_padding_then_a_window_then_a_flip(self, dtype):
        images = torch.tensor(pictures(height=7, width=6)).to(dtype)
        top, left = torch.tensor([-3, 0, 2, 3, -1]), torch.tensor([1, -3, 0, 3, 2])
        flipped = torch.tensor([True, False, True, True, False])
        ours = cropped(images, top, left, flipped)
        assert ours.dtype == dtype
        for number, image in enumerate(images.double().numpy()):
            padded = np.pad(image, ((0, 0), (3, 3), (3, 3)), mode="reflect")
            window = padded[:, 3 + top[number] :, 3 + left[number] :][:, :7, :6]
            expected = window[:, :, ::-1] if flipped[number] else window
            np.testing.assert_array_equal(ours[number].double().numpy(), expected)

    def test_cutout_replaces_the_pixels_whose_middle_is_inside(self):
        images = tensor(pictures(height=7, width=6))
        y, x, side = (
            torch.tensor([0.0, 3.5, 7.0, 2.2, 3.0]),
            torch.tensor([0.0, 3.0, 6.0, 4.9, 3.0]),
            torch.tensor([4.0, 3.0, 2.0, 0.0, 99.0]),
        )
        expected = pictures(height=7, width=6)
        for number in range(5):
            for row in range(7):
                for column in range(6):
                    far = max(abs(row + 0.5 - y[number]), abs(column + 0.5 - x[number]))
                    if far < side[number] / 2:
                        expected[number, :, row, column] = 127
        assert_same(cut_out(images, y - 3.5, x - 3, side, 127), expected)


def test_levels_of_bytes_and_of_floats_come_back_as_they_were():
    every = torch.arange(256, dtype=torch.uint8).view(1, 1, 16, 16)
    for images in (every, every.float() / 255, every.double() / 255):
        levels = to_levels(images)
        assert torch.equal(levels, every.float())
        back = from_levels(levels, images)
        assert back.dtype == images.dtype
        torch.testing.assert_close(back, images, rtol=0, atol=1e-7)
    outside = torch.tensor([-0.5, 1.5]).view(1, 1, 1, 2)
    assert to_levels(outside).flatten().tolist() == [0, 255]
