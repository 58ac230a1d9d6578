"""Models as people have them: inputs by keyword, integer ids, outputs with `.logits`, loaders and collate functions."""

from __future__ import annotations

import pickle
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, default_collate

from glws import em_loss
from glws.data import Batch, Inputs, WeakDataset
from glws.errors import DataError
from glws.kinds import Labels, Proportions
from glws.training import TrainingConfig, fit

NUMBER = 600
IDS = torch.randint(1, 12, (NUMBER, 6), generator=torch.Generator().manual_seed(0))
MASK = (torch.arange(6) < torch.randint(3, 7, (NUMBER, 1), generator=torch.Generator().manual_seed(1))).long()
TRUTH = ((IDS == 7) & (MASK == 1)).any(1).long()
GROUPS = torch.arange(NUMBER).view(-1, 3)
COUNTS = Proportions.of(TRUTH[GROUPS].sum(1))
QUICK = TrainingConfig(epochs=8, batch_size=20, learning_rate=0.1, device="cpu")


class Output(NamedTuple):
    """What models of Hugging Face return: an object with logits and more."""

    loss: Tensor | None
    logits: Tensor


class Classifier(nn.Module):
    """A classifier of token ids in the manner of Hugging Face."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding, self.head = nn.Embedding(12, 8), nn.Linear(8, 2)

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Output:
        assert input_ids.dtype == torch.int64, "ids are never cast"
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        return Output(None, self.head((self.embedding(input_ids) * mask[..., None]).amax(1)))


def test_inputs_by_keyword_and_outputs_with_logits_are_trained_on() -> None:
    inputs = {"input_ids": IDS, "attention_mask": MASK}
    fitted = fit(Classifier(), WeakDataset(inputs, GROUPS, COUNTS), config=QUICK)
    predicted = fitted.predict(inputs)
    assert predicted.shape == (NUMBER, 2)
    assert (predicted.argmax(1) == TRUTH).float().mean() > 0.9


def test_integer_ids_are_not_cast_for_a_model_with_an_embedding() -> None:
    fitted = fit(Classifier(), WeakDataset(IDS, GROUPS, COUNTS), config=QUICK)
    assert fitted.predict(IDS).shape == (NUMBER, 2)


def test_integers_are_numbers_for_a_model_without_an_embedding() -> None:
    fitted = fit(nn.Linear(6, 2), WeakDataset(IDS, GROUPS, COUNTS), config=TrainingConfig(epochs=1, device="cpu"))
    assert torch.isfinite(fitted.predict(IDS)).all()


class Texts(Dataset[Any]):
    """Items of different lengths, as before padding."""

    def __len__(self) -> int:
        return NUMBER

    def __getitem__(self, number: int) -> tuple[dict[str, Tensor], int]:
        return {"input_ids": IDS[number][MASK[number] == 1]}, 5


def padded(items: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    ids = nn.utils.rnn.pad_sequence([item["input_ids"] for item in items], batch_first=True)
    return {"input_ids": ids, "attention_mask": (ids > 0).long()}


def test_a_collate_function_puts_items_together() -> None:
    data = WeakDataset(Texts(), GROUPS, COUNTS, collate=padded)
    fitted = fit(Classifier(), data, config=QUICK)
    inputs = {"input_ids": IDS * MASK, "attention_mask": MASK}
    assert (fitted.predict(inputs).argmax(1) == TRUTH).float().mean() > 0.9


def test_named_tensors_of_different_lengths_are_refused() -> None:
    with pytest.raises(DataError, match=r"the same number of rows in each, found \{'a': 2, 'b': 3\}"):
        Inputs({"a": torch.zeros(2), "b": torch.zeros(3)})


# ---------------------------------------------------------------- loaders of other people


def test_kinds_are_collated_by_the_loader_of_torch() -> None:
    labels = Labels.of([0, 1, 1, 0], 2)
    found = default_collate([labels[[0]], labels[[1]], labels[[3]]])
    assert isinstance(found, Labels)
    assert found.labels.tolist() == [0, 1, 0]
    mixed = default_collate([(torch.zeros(3), COUNTS[[0]]), (torch.ones(3), COUNTS[[4]])])
    assert mixed[0].shape == (2, 3)
    assert mixed[1].low.tolist() == COUNTS.low[[0, 4]].tolist()


def test_any_loader_takes_the_data_set() -> None:
    rows = torch.randn(NUMBER, 3, generator=torch.Generator().manual_seed(0))
    data = WeakDataset(rows, [GROUPS.tolist()[:7], [[row] for row in range(100, 105)]],
                       [COUNTS[:7], Labels.of([0, 1, 0, 1, 1], 2)])  # fmt: skip
    assert len(data) == 12
    model = nn.Linear(3, 2)
    seen = 0
    for batch in DataLoader(data, batch_size=5, shuffle=True, generator=torch.Generator().manual_seed(0)):
        assert isinstance(batch, Batch)
        log_probs = model(batch.instances).log_softmax(1)
        for part in batch.parts:
            seen += len(part.groups)
            if len(part.groups):
                assert torch.isfinite(em_loss(part.gather(log_probs), part.weak, lengths=part.lengths).loss)
            for row, length, group in zip(part.rows, part.lengths.tolist(), part.groups.tolist(), strict=True):
                kind = batch.parts.index(part)
                expected = rows[data.groups[kind][[group]].indices]
                assert torch.equal(batch.instances[row[:length]], expected)
    assert seen == 12


def test_a_data_set_survives_pickling_and_workers() -> None:
    data = WeakDataset(torch.randn(NUMBER, 3), GROUPS, COUNTS)
    again = pickle.loads(pickle.dumps(data))
    first, second = (next(each.batches(1)) for each in (data, again))
    assert torch.equal(first.instances, second.instances)
    assert torch.equal(first.parts[0].weak.low, second.parts[0].weak.low)
