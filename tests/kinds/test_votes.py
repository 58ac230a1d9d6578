"""`Votes`: the model by hand, its engines against plain loops, and EM on votes with planted sources."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from glws.errors import DataError
from glws.kinds import Labels, SourceForm, Together, Votes
from glws.kinds import _vote_kernels as kernels
from glws.kinds._vote_arrays import PackedVotes
from glws.kinds._vote_fit import emission_of, fit
from glws.kinds._vote_model import SourceParameters

Array = NDArray[Any]


def planted(
    seed: int, items: int, confusion: Array, votes_each: int, balance: Array | None = None
) -> tuple[Votes, Array]:
    """Votes of sources with these matrices [sources, classes, classes], and the true classes."""
    random = np.random.default_rng(seed)
    sources, classes, _ = confusion.shape
    truth = random.choice(classes, items, p=balance)
    chosen = np.argsort(random.random((items, sources)), 1)[:, :votes_each]
    rows, columns = np.repeat(np.arange(items), votes_each), chosen.ravel()
    chances = confusion[columns, truth[rows]].cumsum(1)
    labels = (random.random(len(rows))[:, None] > chances).sum(1)
    order = random.permutation(len(rows))
    return Votes.of_long(rows[order], columns[order], labels[order], items, classes), truth


def coins(accuracies: Array, classes: int) -> Array:
    eye = np.eye(classes)
    return np.stack([a * eye + (1 - a) / (classes - 1) * (1 - eye) for a in accuracies])


def random_matrices(seed: int, sources: int, classes: int, diagonal: float = 4.0) -> Array:
    random = np.random.default_rng(seed)
    return np.stack([[random.dirichlet(np.ones(classes) + diagonal * row) for row in np.eye(classes)]
                     for _ in range(sources)])  # fmt: skip


def test_two_sources_that_disagree_weigh_as_computed_by_hand() -> None:
    weak = Votes.of([[1, 0]], 2, accuracy=[0.8, 0.6])
    assert weak.log_table().softmax(1)[0, 1].item() == pytest.approx(8 / 11, abs=1e-15)


def test_no_vote_leaves_the_prediction() -> None:
    answer = Votes.of([[-1, -1]], 2).infer(torch.tensor([[[0.3, 0.7]]]).log())
    torch.testing.assert_close(answer.marginals[0, 0], torch.tensor([0.3, 0.7]))


def test_a_vote_against_a_class_and_a_vote_for_the_others_are_the_same() -> None:
    confusion = torch.from_numpy(random_matrices(1, 1, 3))
    against, for_two = ([[[0, 1, 1]]], [[[0, 2, 2]]])
    left, right = (Votes.of_scores(scores) for scores in (against, for_two))
    table = (confusion[0] @ torch.tensor([0.0, 1, 1], dtype=torch.float64)).log()
    for weak in (left, right):
        found = weak.with_parameters(_parameters(confusion.numpy()[None]), SourceForm("matrix")).log_table()[0]
        torch.testing.assert_close(found.softmax(0), table.softmax(0))


def _parameters(confusion: Array) -> SourceParameters:
    return SourceParameters(confusion, np.ones(1), np.full(confusion.shape[-1], 1 / confusion.shape[-1]))


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("has_rates", [False, True])
@pytest.mark.parametrize("name", ["accuracy", "per_class", "matrix", "difficulty"])
def test_em_never_loses_and_ends_where_the_kernels_agree_with_plain_loops(
    name: Any, has_rates: bool, classes: int
) -> None:
    weak, _ = planted(3, 60, random_matrices(2, 7, classes), 4)
    votes = weak.packed()
    found = fit(votes, SourceForm(name, 2.0), has_rates)
    gains = np.diff(found.objective)
    assert len(gains) > 3
    assert gains.min() >= -1e-12 * abs(found.objective[-1])
    total, posterior = by_loops(votes, found.parameters)
    assert found.objective[-1] - found.parameters.log_prior == pytest.approx(total, rel=1e-12)
    np.testing.assert_allclose(found.posterior, posterior, atol=1e-12)


def by_loops(votes: PackedVotes, known: SourceParameters) -> tuple[float, Array]:
    """log p(votes), and the posterior of each item, from the definition."""
    total, rows = 0.0, []
    for item in range(votes.num_items):
        joint = np.zeros(len(known.balance))
        for level, share in enumerate(known.shares):
            for y, prior in enumerate(known.balance):
                part = share * prior
                said = votes.said[votes.offsets[item] : votes.offsets[item + 1]]
                for t in said:
                    part *= known.confusion[level, votes.speakers[t], y] @ votes.meanings[t]
                if known.rates is not None:
                    voters = set(votes.speakers[said].tolist())
                    for a in range(votes.num_sources):
                        part *= known.rates[a, y] if a in voters else 1 - known.rates[a, y]
                joint[y] += part
        total += math.log(joint.sum())
        rows.append(joint / joint.sum())
    return total, np.array(rows)


def test_held_out_votes_are_scored_given_all_others() -> None:
    weak, _ = planted(4, 40, random_matrices(5, 6, 3), 3)
    votes = weak.packed()
    for has_rates in (False, True):
        known = fit(votes, SourceForm("matrix"), has_rates).parameters
        held_out = np.random.default_rng(0).random(len(votes.said)) < 0.3
        scores = np.zeros(held_out.sum())
        emission = emission_of(votes, known)
        kernels.held_out_scores(
            votes.offsets, votes.said, held_out, emission.relative, emission.vote, emission.prior, scores
        )
        for number, place in enumerate(np.flatnonzero(held_out)[:10]):
            assert scores[number] == pytest.approx(_one_held_out(votes, known, place), abs=1e-10)


def _one_held_out(votes: PackedVotes, known: SourceParameters, place: int) -> float:
    """log of p(all votes of the item) / p(all but this one, its source left out)."""
    item = int(np.searchsorted(votes.offsets, place, side="right")) - 1
    source = votes.speakers[votes.said[place]]
    one = votes.sampled(np.array([item]))
    rest = one.kept(np.arange(len(one.said)) != place - votes.offsets[item])
    whole = by_loops(one, known)[0]
    others = [a for a in range(votes.num_sources) if a != source]
    if known.rates is None:
        return whole - by_loops(rest, known)[0]
    numbers = np.full(votes.num_sources, -1)
    numbers[others] = range(len(others))
    kept = np.flatnonzero(numbers[votes.speakers] >= 0)
    places = np.full(len(votes.speakers), -1)
    places[kept] = range(len(kept))
    fewer = rest._replace(
        said=places[rest.said], speakers=numbers[votes.speakers[kept]], meanings=votes.meanings[kept],
        num_sources=len(others), weights=np.ones(len(others)),
    )  # fmt: skip
    return whole - by_loops(fewer, known._replace(confusion=known.confusion[:, others], rates=known.rates[others]))[0]


def test_planted_matrices_come_back_within_sampling_error() -> None:
    confusion = random_matrices(6, 20, 3)
    weak, truth = planted(7, 5000, confusion, 5, np.array([0.5, 0.3, 0.2]))
    found = weak.aggregate()
    assert found.forms[0].name == "matrix"
    learned = found.votes.confusion[0].numpy()
    rows = 5000 * 5 / 20 * np.array([0.5, 0.3, 0.2])  # votes of a source on items of each class
    error = np.sqrt(confusion * (1 - confusion) / rows[:, None])
    assert np.abs(learned - confusion).max() < 0.1
    assert (np.abs(learned - confusion) < 3 * error + 0.01).mean() > 0.97
    inside = [source.low <= float((np.diag(confusion[a]) * [0.5, 0.3, 0.2]).sum()) <= source.high
              for a, source in enumerate(found.sources)]  # fmt: skip
    assert np.mean(inside) >= 0.85  # intervals of 95 %, which do not know that matrices were estimated too
    assert np.abs(found.balance - [0.5, 0.3, 0.2]).max() < 0.03
    assert (found.labels == truth).mean() > 0.9


@pytest.mark.parametrize("classes", [2, 4])
def test_adversarial_sources_are_used_and_no_worse_than_by_dawid_and_skene(classes: int) -> None:
    ours, theirs, majority = [], [], []
    for seed in range(3):
        accuracies = np.random.default_rng(seed).uniform(0.5, 0.85, 20)
        accuracies[:2] = 0.1
        weak, truth = planted(seed, 1000, coins(accuracies, classes), 5)
        ours.append((weak.aggregate(seed=seed).labels == truth).mean())
        theirs.append((dawid_skene(weak) == truth).mean())
        majority.append((fit(weak.packed(), SourceForm("accuracy", 1e9)).posterior.argmax(1) == truth).mean())
    assert np.mean(ours) >= np.mean(theirs)
    assert np.mean(ours) > np.mean(majority) + 0.03


def dawid_skene(weak: Votes) -> Array:
    """The model of 1979 as everybody has it: full matrices, a hundred steps, a small constant against zeros."""
    votes, classes = weak.packed(), weak.num_classes
    items, sources, said = votes.items, votes.said // classes, votes.said % classes
    posterior = np.zeros((votes.num_items, classes))
    np.add.at(posterior, (items, said), 1.0)
    posterior /= posterior.sum(1, keepdims=True)
    for _ in range(100):
        counts = np.full((votes.num_sources, classes, classes), 1e-10)
        np.add.at(counts.transpose(0, 2, 1), (sources, said), posterior[items])
        log_confusion = np.log(counts / counts.sum(2, keepdims=True))
        scores = np.tile(np.log(posterior.mean(0) + 1e-10), (votes.num_items, 1))
        np.add.at(scores, items, log_confusion[sources, :, said])
        posterior = np.exp(scores - scores.max(1, keepdims=True))
        posterior /= posterior.sum(1, keepdims=True)
    return posterior.argmax(1)


def test_sources_that_say_one_class_only_tell_something_by_their_abstentions() -> None:
    random = np.random.default_rng(0)
    truth = random.integers(0, 2, 1500)
    rates = np.array([[0.1, 0.5], [0.05, 0.4], [0.15, 0.6], [0.5, 0.1], [0.6, 0.2], [0.4, 0.05]])
    fires = random.random((1500, 6)) < rates[:, truth].T
    matrix = np.where(fires, [1, 1, 1, 0, 0, 0], -1)
    found = Votes.of(matrix, 2).aggregate()
    assert found.votes.has_rates
    known = found.votes.with_parameters(found.votes.parameters()._replace(rates=rates), found.forms[0])
    best = (known.log_table().argmax(1).numpy() == truth).mean()
    assert best - 0.03 < (found.labels == truth).mean()
    assert best > 0.85
    assert np.abs(found.votes.rates.numpy() - rates).max() < 0.08
    assert not Votes.of(matrix, 2).aggregate(abstentions="ignored").votes.has_rates


def test_one_accuracy_is_enough_where_sources_have_no_more() -> None:
    weak, _ = planted(1, 1500, coins(np.linspace(0.45, 0.8, 15), 4), 5)
    found = weak.aggregate()
    assert found.forms[0].name == "accuracy"
    assert {each.form.name for each in found.tried} >= {"accuracy", "per_class", "matrix"}


def test_difficult_items_are_told_apart_by_many_votes() -> None:
    random = np.random.default_rng(2)
    skills, eases = random.uniform(0.5, 2, 12), np.exp(random.choice([-1.5, 1.5], 600))
    truth = random.integers(0, 2, 600)
    right = random.random((600, 12)) < 1 / (1 + np.exp(-skills * eases[:, None]))
    found = Votes.of(np.where(right, truth[:, None], 1 - truth[:, None]), 2).aggregate()
    assert found.forms[0].name == "difficulty"
    assert found.entropy[eases < 1].mean() > 4 * found.entropy[eases > 1].mean()


def test_warnings_name_what_is_odd_about_the_sources() -> None:
    weak, _ = planted(9, 400, coins(np.array([0.8, 0.75, 0.8, 0.7, 0.85, 0.1]), 2), 6)
    matrix = np.full((401, 9), -1)
    votes = weak.packed()
    matrix[votes.items, votes.said // 2] = votes.said % 2
    matrix[:400, 6], matrix[:400, 7] = matrix[:400, 0], 1  # a copy, and a constant; source 8 is silent
    text = "\n".join(Votes.of(matrix, 2, source_names=list("abcdefghi")).aggregate(abstentions="ignored").warnings)
    assert "1 item without a vote: their posterior is the class prior" in text
    assert "1 source without a vote: i" in text
    assert "1 source with one class for every item, which says nothing: h" in text
    assert "1 source worse than chance, read as evidence against what they say: f" in text
    assert "a, g agree more often than independent sources would" in text


def test_copies_count_once_when_tempered() -> None:
    weak, _ = planted(3, 800, coins(np.array([0.7, 0.8, 0.75, 0.8]), 2), 4)
    votes = weak.packed()
    matrix = np.zeros((800, 4), int)
    matrix[votes.items, votes.said // 2] = votes.said % 2
    repeated = Votes.of(matrix[:, [0, 0, 0, 1, 2, 3]], 2)
    found = repeated.aggregate("accuracy", temper=True)
    assert found.clusters == ((0, 1, 2),)
    assert found.effective_sources == pytest.approx(4, abs=0.3)
    np.testing.assert_allclose(found.votes.weights, [1 / 3] * 3 + [1] * 3)
    alone = Votes.of(matrix, 2).aggregate("accuracy")
    assert (found.labels == alone.labels).mean() > 0.99


def test_swapped_class_names_that_are_as_likely_are_mentioned() -> None:
    weak, _ = planted(0, 500, coins(np.array([0.9, 0.9, 0.9, 0.1, 0.1, 0.1]), 2), 6)
    assert any("classes 0 and 1 may be swapped" in line for line in weak.aggregate().warnings)


def test_items_to_ask_about_are_those_that_a_vote_tells_most_about() -> None:
    matrix = np.array([[1, 1, 1, 1], [0, 0, 0, 0], [1, 0, -1, -1], [1, 1, 1, -1], [0, 0, 0, -1], [1, -1, -1, -1]] * 20)
    found = Votes.of(matrix, 2).aggregate("accuracy", 4)
    assert set((found.next_items(20) % 6).tolist()) == {2}
    assert (found.information_gain() >= 0).all()


def test_long_tables_and_matrices_give_the_same_votes() -> None:
    matrix = np.array([[1, -1, 2], [-1, -1, -1], [0, 0, -1], [2, 1, 0]])
    items, sources = np.nonzero(matrix >= 0)
    order = np.random.default_rng(1).permutation(len(items))
    long = Votes.of_long(items[order], sources[order], matrix[items, sources][order], 4, 3)
    assert torch.equal(long.log_table(), Votes.of(matrix, 3).log_table())
    assert long.describe(3, ["a", "b", "c"]) == "3 votes: 1 for a, 1 for b, 1 for c"
    assert long.describe(1) == "no vote"


def test_indexing_chooses_items_and_keeps_sources() -> None:
    weak, _ = planted(5, 50, random_matrices(5, 6, 3), 3)
    weak = weak.learned("matrix")
    for chosen in ([7, 3, 3, 0], slice(10, 20, 3), torch.arange(50) % 7 == 2):
        index = torch.arange(50)[chosen if not isinstance(chosen, list) else torch.tensor(chosen)]
        assert torch.equal(weak[chosen].log_table(), weak.log_table()[index])
    assert len(weak[[]]) == 0


def test_groups_with_the_same_votes_are_one() -> None:
    weak = Votes.of([[1, 0], [0, 1], [1, 0], [-1, 1], [-1, 1]], 2)
    first, index = weak.distinct(torch.ones(5, dtype=torch.int64))
    assert (first.tolist(), index.tolist()) == ([0, 1, 3], [0, 1, 0, 2, 2])


@pytest.mark.parametrize("name", ["accuracy", "matrix", "difficulty"])
def test_a_step_of_training_is_a_step_of_em(name: Any) -> None:
    weak, _ = planted(5, 200, random_matrices(5, 6, 3), 3)
    weak = weak.learned(SourceForm(name), abstentions="informative")
    predictions = torch.rand(200, 1, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    predictions = (predictions / predictions.sum(2, keepdim=True)).log()
    parts = [torch.arange(0, 80), torch.arange(80, 200)]
    counts = sum(weak[part].expected_counts(weak[part].infer(predictions[part])) for part in parts)
    whole = weak.expected_counts(weak.infer(predictions))
    torch.testing.assert_close(counts, whole)
    before = weak.infer(predictions).log_likelihood.sum()
    step = weak.relearned(whole)
    for _ in range(20):
        step = step.m_step(step.infer(predictions))
    assert step.infer(predictions).log_likelihood.sum() > before
    assert step.num_sources == 6


@pytest.mark.parametrize("abstentions", ["ignored", "informative"])
@pytest.mark.parametrize("name", ["accuracy", "per_class", "matrix", "difficulty"])
def test_counts_of_the_present_sources_keep_them(name: Any, abstentions: Any) -> None:
    weak = planted(5, 200, random_matrices(5, 6, 3), 3)[0].learned(SourceForm(name), abstentions=abstentions)
    again = weak.relearned(weak.noise_counts())
    for left, right in ((again.confusion, weak.confusion), (again.rates, weak.rates), (again.shares, weak.shares)):
        torch.testing.assert_close(left, right, atol=1e-6, rtol=0)
    assert again.noise().keys() == weak.noise().keys()


def test_votes_and_labels_on_the_same_instances_have_one_posterior() -> None:
    both = Together.of(Votes.of([[1, 0], [1, 1]], 2, [0.8, 0.6]), Labels.of([None, 0], 2))
    posterior = both.infer(torch.full((2, 1, 2), 0.5).log()).marginals[:, 0, 1]
    torch.testing.assert_close(posterior, torch.tensor([8 / 11, 0.0]))


def rules() -> tuple[Votes, Array]:
    """Three rules for class 1 and three for class 0, right in 80 % of their votes."""
    random = np.random.default_rng(0)
    truth = random.integers(0, 2, 1500)
    fires = random.random((1500, 6)) < np.where(np.array([1, 1, 1, 0, 0, 0]) == truth[:, None], 0.4, 0.1)
    return Votes.of(np.where(fires, [1, 1, 1, 0, 0, 0], -1), 2), truth


def test_sources_that_say_one_class_only_have_a_precision() -> None:
    weak, truth = rules()
    learned = weak.learned()
    found = learned.noise()
    matrix = np.full((1500, 6), -1)
    matrix[weak.packed().items, weak.packed().speakers[weak.said]] = weak.packed().meanings.argmax(1)[weak.said]
    for source in range(6):
        voted = matrix[:, source] >= 0
        precision = (matrix[voted, source] == truth[voted]).mean()
        assert found[f"precision of {source}"] == pytest.approx(precision, abs=0.06)
    assert "accuracy of 0" not in found
    assert learned[:3].noise() == found  # names do not depend on which items are looked at


def test_a_review_reports_the_present_sources_without_a_search() -> None:
    weak, _ = planted(3, 800, random_matrices(2, 7, 3), 4)
    whole = weak.aggregate("matrix", 4.0)
    found = whole.votes.review()
    assert found.tried == ()
    assert found.forms == (SourceForm("matrix", 4.0),)
    assert len(found.objective) < len(whole.objective) / 2  # it begins where the sources are
    np.testing.assert_allclose(found.posterior, whole.posterior, atol=0.02)
    assert found.warnings == whole.warnings


def test_informative_abstentions_are_not_learned_with_a_network() -> None:
    with pytest.raises(DataError, match="informative abstentions drift if they are learned with a network: leave out"):
        rules()[0].learned().learning()


def test_scores_stand_beside_votes() -> None:
    votes = Votes.of([[0], [1], [-1]], 2, source_names=["rule"])
    scores = Votes.of_scores([[[0.9, 0.1]], [[math.nan, math.nan]], [[0.2, 0.8]]], ["model"])
    both = votes.beside(scores)
    assert both.source_names == ("rule", "model")
    assert [both.describe(item) for item in range(3)] == [
        "2 votes: 1 for 0, 1 with sets or scores", "1 vote: 1 for 1", "1 vote: 1 with sets or scores",
    ]  # fmt: skip
    expected = votes.log_table() + scores.log_table()
    torch.testing.assert_close(both.log_table(), expected)
    random = np.random.default_rng(0)
    truth = random.integers(0, 2, 300)
    model = np.where(truth, 0.8, 0.2) + random.uniform(-0.15, 0.15, 300)
    many = Votes.of(np.where(random.random((300, 3)) < 0.7, truth[:, None], 1 - truth[:, None]), 2)
    many = many.beside(Votes.of_scores(np.stack([1 - model, model], 1)[:, None]))
    found = many.aggregate("matrix", 4)
    assert np.diff(found.objective).min() >= -1e-9
    assert (found.labels == truth).mean() > 0.9


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Votes.of([[3]], 2), "votes must be within -1..1, found"),
        (lambda: Votes.of([1, 0], 2), "votes must have 2 axes"),
        (lambda: Votes.of([[1]], 2, accuracy=1.0), "accuracy must be between 0 and 1"),
        (lambda: Votes.of([[1]], 2, accuracy=[0.5, 0.6]), "accuracy must be one number or 1"),
        (lambda: Votes.of([[1]], 2, source_names=["a", "b"]), "there are 1 sources but 2 names"),
        (lambda: Votes.of_scores([[0.5]]), r"scores must be \[instances, sources, classes\]"),
        (lambda: Votes.of_scores([[[-0.5, 1]]]), "scores must be finite and >= 0"),
        (lambda: Votes.of_long(np.array([0]), np.array([0]), np.array([2]), 1, 2), "labels must be whole numbers"),
        (lambda: Votes.of_long(np.array([0]), np.array([0, 1]), np.array([1]), 1, 2), "must have one entry for each"),
        (lambda: Votes.of([[1]], 2).beside(Votes.of([[1], [0]], 2)), "cannot stand beside"),
        (lambda: Votes.of([[1]], 2).aggregate("nonsense"), "form must be auto or one of accuracy"),
        (lambda: Votes.of([[1]], 2).aggregate("matrix", -1), "prior_counts must be a number above 0"),
        (lambda: Votes.of([[1]], 2).aggregate(abstentions="never"), "abstentions must be auto, ignored or"),
        (lambda: Votes.of([[1]], 2).aggregate(class_balance=[0.5, 0.6]), "class_balance must be 2 shares above 0"),
    ],
)
def test_what_cannot_be_read_is_one_line(make: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        make()


def test_votes_without_any_vote_and_of_one_class_are_answered() -> None:
    nothing = Votes.of(np.full((3, 2), -1), 2).aggregate()
    assert nothing.posterior.tolist() == [[0.5, 0.5]] * 3
    assert math.isnan(nothing.sources[0].accuracy)
    assert Votes.of([[0], [-1]], 1).log_table().tolist() == [[0.0], [0.0]]
