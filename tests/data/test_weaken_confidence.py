"""Confidences: where they come from, the shift of the prior, what pairs and positives are told, the exact toy."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_clip import TinyClip, letters, open_clip
from torch.nn.functional import softplus

from glws.data.weaken import (
    ClipScorer,
    at_prior,
    confidence_difference,
    crossed_scores,
    fitted_temperature,
    held_out_scores,
    pair_comparison,
    positive_confidence,
    positive_scores,
    similarity_confidence,
)
from glws.data.weaken._clip import prepared_images
from glws.errors import DataError

# The toy of the specification: inputs a, b, c with p+ = (.6, .3, .1), p- = (.1, .3, .6) and scores z.
TOY_LABELS = torch.tensor([1] * 1000 + [0] * 1000)
TOY_SCORES = torch.tensor([1.5] * 600 + [0.2] * 300 + [-1.0] * 100 + [1.5] * 100 + [0.2] * 300 + [-1.0] * 600).double()
TOY_CONFIDENCE = torch.tensor(
    [6 / 7] * 600 + [0.5] * 300 + [1 / 7] * 100 + [6 / 7] * 100 + [0.5] * 300 + [1 / 7] * 600
)  # at prior 1/2
RISK = {0.4: 0.531170, 0.8: 0.464801}


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def toy_scores(record: object) -> tuple[torch.Tensor, torch.Tensor]:
    first, second = TOY_SCORES[record.groups.indices.view(-1, 2)].unbind(1)
    return first, second


def test_confidences_are_shifted_as_in_the_specification() -> None:
    shifted = at_prior([0.9, 0.5, 0.1], prior=0.6, confidence_prior=0.4)
    assert shifted.tolist() == pytest.approx([0.952941, 0.692308, 0.2], abs=1e-6)
    assert at_prior([0.9, 0.3], prior=0.6).mean() == pytest.approx(0.6, abs=0.05)  # from their own mean, which is 0.6
    assert at_prior([6 / 7, 0.5, 1 / 7], 0.4, 0.5).tolist() == pytest.approx([0.8, 0.4, 0.1])
    assert at_prior([6 / 7, 0.5, 1 / 7], 0.8, 0.5).tolist() == pytest.approx([0.96, 0.8, 0.4])
    with pytest.raises(DataError, match=r"a prior of confidences must lie between 0 and 1, found 0\.5 and 1"):
        at_prior([0.5], 0.5, 1.0)


@pytest.mark.parametrize("prior", [0.4, 0.8])
def test_difference_risk_is_unbiased_on_the_drawn_pairs(prior: float) -> None:
    record = confidence_difference(TOY_LABELS, TOY_CONFIDENCE, 40_000, prior, confidence_prior=0.5, generator=seeded())
    (first, second), c = toy_scores(record), record.weak.difference
    terms = (prior - c) * softplus(-first) + (1 - prior + c) * softplus(first)
    terms = terms + (prior + c) * softplus(-second) + (1 - prior - c) * softplus(second)
    assert (terms / 2).mean() == pytest.approx(RISK[prior], abs=4 * 0.32 / 200)  # 0.316: deviation of one pair at 0.4
    assert record.statistics["mean_difference"] == pytest.approx(0.0, abs=0.01)
    assert record.statistics["mean_confidence"] == pytest.approx(prior, abs=0.01)


@pytest.mark.parametrize("prior", [0.4, 0.8])
def test_similarity_risk_is_unbiased_on_the_drawn_pairs(prior: float) -> None:
    record = similarity_confidence(TOY_LABELS, TOY_CONFIDENCE, 40_000, prior, confidence_prior=0.5, generator=seeded())
    (first, second), s = toy_scores(record), record.weak.confidence
    positive = ((s - (1 - prior)) * (softplus(-first) + softplus(-second))).mean() / (2 * (2 * prior - 1))
    negative = ((prior - s) * (softplus(first) + softplus(second))).mean() / (2 * (2 * prior - 1))
    assert positive + negative == pytest.approx(RISK[prior], abs=4 * 0.76 / 200)  # 0.752: deviation of one pair at 0.4
    assert record.statistics["mean_similarity"] == pytest.approx(record.statistics["expected_similarity"], abs=0.01)


@pytest.mark.parametrize("prior", [0.4, 0.8])
def test_comparison_risk_is_unbiased_for_its_own_rule_only(prior: float) -> None:
    other = 1 - prior
    answers = {}
    for rule in ("swap", "discard"):
        record = pair_comparison(TOY_LABELS, 40_000, prior, rule=rule, generator=seeded())
        first, second = toy_scores(record)
        published = softplus(-first) - prior * softplus(first) + softplus(second) - other * softplus(-second)
        matched = (1 + prior) * softplus(-first) - other * softplus(-second)
        matched = (matched + (1 + other) * softplus(second) - prior * softplus(first)) / 2
        answers[rule] = (float(published.mean()), float(matched.mean()))
    noise = 4 * 0.98 / 200  # 0.974: deviation of one pair at 0.4
    assert answers["discard"][0] == pytest.approx(RISK[prior], abs=noise)
    assert answers["swap"][1] == pytest.approx(RISK[prior], abs=noise)
    assert answers["swap"][0] == pytest.approx({0.4: 0.384486, 0.8: 0.358169}[prior], abs=noise)


def test_positive_confidence_risk_is_unbiased_on_positives() -> None:
    confidence = at_prior(TOY_CONFIDENCE, 0.4, 0.5)
    record = positive_confidence(TOY_LABELS, confidence, 20_000, generator=seeded())
    scores, r = TOY_SCORES[record.groups.indices], record.weak.confidence
    terms = softplus(-scores) + (1 - r) / r * softplus(scores)
    assert 0.4 * terms.mean() == pytest.approx(RISK[0.4], abs=4 * 0.43 / 20_000**0.5)
    assert record.statistics["negatives"] == 0


def test_positive_confidence_of_both_classes_is_half_and_half() -> None:
    record = positive_confidence(TOY_LABELS, TOY_CONFIDENCE, 501, positives_only=False, generator=seeded())
    assert (record.statistics["positives"], record.statistics["negatives"]) == (250, 251)
    assert torch.equal(record.weak.confidence, TOY_CONFIDENCE.double()[record.groups.indices])


def test_pairs_have_the_exact_number_of_positives() -> None:
    for number, prior, positives in ((1000, 0.29, 580), (7, 0.5, 7), (3, 0.4, 2)):
        record = confidence_difference(
            TOY_LABELS, TOY_CONFIDENCE, number, prior, confidence_prior=0.5, tolerance=1.0, generator=seeded()
        )
        assert record.statistics["positives"] == positives
        assert int(TOY_LABELS[record.groups.indices].sum()) == positives


def test_confidences_that_are_no_probabilities_are_refused() -> None:
    with pytest.raises(DataError, match=r"the mean confidence of the drawn instances is 0\.500, but .* is 0\.8"):
        confidence_difference([0, 1] * 50, [0.5] * 100, 20, 0.8, confidence_prior=0.8, generator=seeded())
    with pytest.raises(DataError, match="labels and confidence must have one entry for each group"):
        similarity_confidence([0, 1] * 50, [0.5] * 99, 20, 0.5, generator=seeded())
    with pytest.raises(DataError, match="confidence must be within 0 and 1"):
        positive_confidence([0, 1], [0.5, 1.5], 1, generator=seeded())


def test_released_difference_keeps_the_numbers_but_not_their_meaning() -> None:
    keywords = {"confidence_prior": 0.5, "generator": seeded()}
    record = confidence_difference(TOY_LABELS, TOY_CONFIDENCE, 100, 0.4, convention="code", **keywords)
    assert record.weak.convention == "code"
    assert bool((record.weak.difference < 0).any())


def test_positive_scores_sum_the_positive_classes() -> None:
    probabilities = torch.tensor([[0.1, 0.2, 0.3, 0.4], [0.25] * 4])
    assert positive_scores(probabilities, [0, 3]).tolist() == pytest.approx([0.5, 0.5])
    with pytest.raises(DataError, match=r"group 1: probabilities must sum to 1, found 0\.5"):
        positive_scores([[0.5, 0.5], [0.25, 0.25]], [1])
    with pytest.raises(DataError, match="class 4 is not one of"):
        positive_scores(probabilities, [4])


def test_held_out_scores_are_calibrated_and_of_unseen_instances() -> None:
    generator = seeded()
    labels = torch.randint(2, (6000,), generator=generator)
    inputs = torch.randn(6000, 3, generator=generator) + 0.6 * (2 * labels[:, None] - 1)
    answer = held_out_scores(inputs, labels, 2, held_out=0.5, generator=seeded(1))
    assert len(answer.scored) == len(torch.unique(answer.scored)) == 3000
    exact = torch.sigmoid(2 * 0.6 * inputs[answer.scored].sum(1)).double()
    assert (answer.probabilities[:, 1] - exact).abs().mean() < 0.03
    assert answer.temperature == pytest.approx(1.0, abs=0.25)
    again = held_out_scores(inputs, labels, 2, held_out=0.5, generator=seeded(1))
    assert torch.equal(answer.scored, again.scored)
    with pytest.raises(DataError, match="leaves nothing to fit, calibrate or score"):
        held_out_scores(inputs, labels, 2, held_out=1.0, generator=seeded())


def test_crossed_scores_are_of_all_instances_and_none_is_scored_by_a_model_that_saw_it() -> None:
    class Remembering:
        """Says class 1 of what it was fitted to, class 0 of everything else, and nothing surely."""

        classes_ = np.array([0, 1])

        def fit(self, inputs: np.ndarray, labels: np.ndarray) -> None:
            self.seen = set(inputs[:, 0].tolist())

        def predict_proba(self, inputs: np.ndarray) -> np.ndarray:
            known = np.array([number in self.seen for number in inputs[:, 0].tolist()])
            return np.where(known[:, None], [[0.4, 0.6]], [[0.6, 0.4]])

    numbers, labels = torch.arange(90)[:, None], torch.randint(2, (90,), generator=seeded())
    for parts in (2, 3):
        model = Remembering()
        scores = crossed_scores(numbers, labels, 2, parts=parts, classifier=model, generator=seeded())
        assert scores.shape == (90, 2)
        assert bool((scores[:, 0] > 0.5).all())
        assert torch.allclose(scores.sum(1), torch.ones(90, dtype=torch.float64))
    with pytest.raises(DataError, match="needs at least 2 parts, found 1"):
        crossed_scores(numbers, labels, 2, parts=1, generator=seeded())


def test_any_classifier_scores_and_unseen_classes_get_a_column() -> None:
    class Constant:
        classes_ = np.array([0, 2])

        def fit(self, inputs: np.ndarray, labels: np.ndarray) -> None:
            assert inputs.shape[1] == 4

        def predict_proba(self, inputs: np.ndarray) -> np.ndarray:
            return np.tile([0.25, 0.75], (len(inputs), 1))

    labels = [0, 2, 2, 2] * 10
    answer = held_out_scores(torch.zeros(40, 2, 2), labels, 3, classifier=Constant(), generator=seeded())
    assert answer.probabilities.shape == (28, 3)
    assert float(answer.probabilities[:, 1].max()) < 1e-3


def test_temperature_undoes_what_was_done() -> None:
    scores = torch.randn(20_000, 4, generator=seeded(), dtype=torch.float64)
    labels = torch.multinomial(scores.softmax(1), 1, generator=seeded())[:, 0]
    assert fitted_temperature((3 * scores).softmax(1), labels) == pytest.approx(3.0, rel=0.05)
    assert fitted_temperature([[0.6, 0.4]] * 3, [0, 0, 0]) == pytest.approx(0.05)  # never wrong: as sure as it may be


def random_images(number: int = 7) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (number, 3, 5, 6), dtype=np.uint8)


def test_clip_scores_are_the_softmax_of_scaled_cosines() -> None:
    model = TinyClip()
    found = ClipScorer(model, letters).probabilities(random_images(), ["cat", "dog", "ship"], batch_size=3)
    pixels = prepared_images(random_images(), (4, 4), (0.5,) * 3, (0.25,) * 3)
    with torch.no_grad():
        image = model.encode_image(pixels)
        text = model.encode_text(letters([f"a photo of a {name}." for name in ("cat", "dog", "ship")]))
        cosine = torch.nn.functional.cosine_similarity(image[:, None], text[None], dim=-1)
    assert torch.allclose(found, (cosine.double() * np.exp(2.0)).softmax(1), atol=1e-6)
    whole = ClipScorer(model, letters).probabilities(random_images(), ["cat", "dog", "ship"])
    assert torch.allclose(found, whole, atol=1e-7)


def test_clip_is_loaded_by_name_and_weights(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[tuple[str, str]] = []

    def create_model(name: str, pretrained: str, device: str) -> TinyClip:
        asked.append((name, pretrained))
        return TinyClip()

    module = open_clip()
    module.create_model = create_model
    monkeypatch.setitem(sys.modules, "open_clip", module)
    weights = tmp_path / "weights.safetensors"
    weights.write_bytes(b"")
    for pretrained in ("openai", weights):
        assert ClipScorer.load("ViT-B-16", pretrained).probabilities(random_images(), ["a", "b"]).shape == (7, 2)
    assert asked == [("ViT-B-16", "openai"), ("ViT-B-16", str(weights))]
    (tmp_path / "weights.pt").write_bytes(b"")
    for wrong, message in (
        (tmp_path / "weights.pt", "must be .safetensors"),
        (tmp_path / "no.safetensors", "there is no file"),
        ("", "pretrained must be a tag"),
    ):
        with pytest.raises(DataError, match=message):
            ClipScorer.load("ViT-B-16", wrong)


def test_a_tiny_model_of_open_clip_itself(tmp_path: Path) -> None:
    open_clip = pytest.importorskip("open_clip", exc_type=ImportError)
    safetensors = pytest.importorskip("safetensors.torch")
    vision = {"image_size": 16, "layers": 1, "width": 32, "head_width": 16, "patch_size": 8}
    text = {"context_length": 77, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 1}
    config = {"embed_dim": 8, "vision_cfg": vision, "text_cfg": text}
    (tmp_path / "tiny-clip.json").write_text(str(config).replace("'", '"'))
    open_clip.add_model_config(tmp_path / "tiny-clip.json")
    model = open_clip.create_model("tiny-clip")
    safetensors.save_file(model.state_dict(), tmp_path / "tiny.safetensors")
    scorer = ClipScorer.load("tiny-clip", tmp_path / "tiny.safetensors")
    found = scorer.probabilities(random_images(), ["cat", "dog"])
    prepared = prepared_images(random_images(), 16, model.visual.image_mean, model.visual.image_std)
    sentences = open_clip.get_tokenizer("tiny-clip")(["a photo of a cat.", "a photo of a dog."])
    with torch.no_grad():
        expected = model.get_logits(prepared, sentences)[0].softmax(1)
    assert torch.allclose(found.float(), expected, atol=1e-5)


def test_clip_refuses_what_it_cannot_compare(monkeypatch: pytest.MonkeyPatch) -> None:
    scorer = ClipScorer(TinyClip(), letters)
    with pytest.raises(DataError, match="found 7 and 1"):
        scorer.probabilities(random_images(), ["cat"])
    with pytest.raises(DataError, match=r"template must have a place \{\} for the name"):
        scorer.probabilities(random_images(), ["cat", "dog"], template="a cat")
    with pytest.raises(DataError, match=r"images must be .*, found shape \[2, 2, 5, 5\]"):
        scorer.probabilities(torch.zeros(2, 2, 5, 5), ["cat", "dog"])
    monkeypatch.setitem(sys.modules, "open_clip", None)
    with pytest.raises(DataError, match="scoring images with CLIP needs the package open_clip_torch"):
        ClipScorer.load()


def test_images_are_resized_by_the_shorter_side_and_cut_in_the_middle() -> None:
    wide = torch.zeros(1, 1, 8, 16)
    wide[..., 4:12] = 1.0
    middle = prepared_images(wide, 8, (0.5,) * 3, (0.5,) * 3)
    assert middle.shape == (1, 3, 8, 8)
    assert bool((middle == 1.0).all())
    assert prepared_images(wide, (4, 8), (0.0,) * 3, (1.0,) * 3).shape == (1, 3, 4, 8)
