"""`WeakClassifier`: a scikit-learn classifier that learns from weak labels."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeGuard

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.validation import check_is_fitted, has_fit_parameter, validate_data
from torch import Tensor, nn

from glws._aliases import takes_old_names, with_current_names
from glws._rules import Rule, either, nothing_or, one_of, switch, whole
from glws.data import Groups, Scaling, Schema, check_learnable, is_frame, lost_values
from glws.errors import ConfigError, DataError
from glws.estimator import _bags as bags
from glws.estimator._features import (
    MixedRows,
    Standardizer,
    as_frame,
    dense,
    for_starting_network,
    mixed_rows,
)
from glws.estimator._network import AUTO, MakeModel, NetworkLearner, decided, rows_for_network
from glws.estimator._network import log_probs as network_log_probs
from glws.estimator._posteriors import first_posterior, informed_rows, row_posterior
from glws.estimator._soft_em import SoftEM, class_table, is_open, log_probs
from glws.estimator._targets import (
    BuildKind,
    KindClass,
    ParsedTargets,
    TargetParser,
    groups_of,
    holds_classes,
    kind_of,
)
from glws.estimator._tools import check_positive_unlabeled_tools, check_tools
from glws.kinds import BagRule, PositiveUnlabeled
from glws.methods import AbstractMethod
from glws.selection import with_estimated_priors
from glws.training import Selection, bag_log_odds_of, weakly_identified

Array = NDArray[np.float64]
TRAINING = ("epochs", "batch_size", "learning_rate", "weight_decay", "device")
"""Parameters that are options of the training, named as in a configuration (`training.epochs`)."""


class WeakClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A scikit-learn classifier that learns from weak labels of rows and of groups.

    What `y` may be, in `fit` and in `score` alike:

    - class labels, numbers or texts, with -1 (`glws.UNKNOWN`, None or NaN) for rows without one; -1 is never a class,
      and labels of one class alone (1 and -1, as for positive-unlabeled data) are refused with what to write;
    - a mask [rows, classes] of the classes that each row may have;
    - a kind of `glws.kinds`, or a list of kinds, with `groups` (a list of as many);
    - values of the kind that `kind` names: counts for "proportions", 1 and 0 for "multi_instance", and so on for all
      kinds of a described table ("proportions.share" for shares of the group), for a class of your own with
      `columns`, or for a function that makes a kind of an array with a value for each group. Each row has the value
      of its group, so that cross-validation can cut it; one value for each group is taken as well.

    `verbose` shows a progress bar, or lines where nobody is looking. Ctrl-C ends learning early and keeps what was
    learned, with a warning; inside tools of scikit-learn, as cross-validation, it ends these too.

    `groups` is the name of its group for each row, as everywhere in scikit-learn; the groups of a kind are then
    numbered in the order of their sorted names. Lists of row numbers, or `Groups`, do too.

    `model="auto"`, the default, needs no choice. Linear models, small networks, forests and boosted trees are trained
    on folds of whole groups, with several weight decays, calibrated, and mixed by the likelihood of held-out weak
    labels (`candidates_`). A given class prior is kept by the predictions. With a `method`, a `base_estimator` or any
    option of the training, and with more than 33 million numbers in X, "auto" means "mlp".

    With another `model` and no `base_estimator`, one network learns: "mlp", "linear", or any callable that gives a
    torch module for the shape of an instance and a number of classes. It is trained by `method` ("glws": EM on the
    exact posterior).
    `recipe="published"` trains as the authors of the method did, where that is known: what they chose replaces the
    usual learning rate, weight decay, batch size and layers, and whatever is given replaces it.
    `model_options`, `method_options` and `training_options` have the names that a configuration has in its sections;
    `epochs`, `batch_size`, `learning_rate`, `weight_decay` and `device` are options of the training too.
    Without `epochs` there are about 1,000 steps in 20 to 100 passes through the groups, and fewer for large data, as
    everywhere (`glws.training._length`). Features are standardized first, unless `standardize=False`.

    `X` is an array, a sparse matrix, or a table: a DataFrame of pandas, polars or pyarrow, a mapping of columns, an
    array of texts and numbers. Its columns may be numbers, categories, booleans, dates, short texts, and have empty
    cells; `schema_` says what was inferred, and `columns={"zip": "category"}` overrides it. A text column may also be
    given a sentence encoder: `columns={"note": encode}`, a function from texts to vectors.

    With a `base_estimator`, any classifier that has `predict_proba` and takes `sample_weight`, EM fits it to weighted
    copies of the rows, `rounds` times, cross-fitted over `folds` (see `SoftEM`). It gets the features as they are; of
    a table of several types, the codes of categories and NaN if it has the parameter `categorical_features`, as
    `HistGradientBoostingClassifier`, and encoded columns otherwise.
    EM needs something to begin with that tells rows apart: `start="network"` trains the network above first and starts
    from its posterior; "even" starts from what the weak labels say by themselves, which is enough where groups differ.

    Bags labeled by whether a class occurs (`kind="multi_instance"`) have answers of their own: `predict_bags`,
    `predict_proba_bags` and `bag_scores`. `X` may then be a list with one array for each bag, and `y` the name of a
    class for each bag with `classes=["normal", "tumor"]`: the second is in a bag or not. `calibrate_bags` fits how sure
    these answers are, by `folds` more fits that leave out a part of the bags each; "auto" does so for up to 1,000 bags.

    After `fit`: `classes_`; `posterior_`, the posterior of each training row given all its weak labels,
    [rows, classes]; `loss_curve_`, the loss of each epoch, or -mean log p(w | x) of rows not fitted to for each round;
    `network_` or `estimator_`, what was learned; `prior_`, the class prior that was stated or estimated for
    kind="positive_unlabeled"; `noise_`, the learned noise with intervals (`NoiseEstimate`), empty if none is learned:
    `kind_options={"rate": "learn"}` and the like ask for it.
    With "auto" there is no `loss_curve_`, but `candidates_`: for each candidate its name, its score, the standard error
    of the difference to the best score, and its weight.

    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 2))
    >>> labels, bag = (X[:, 0] > 0).astype(int), np.arange(400) // 8
    >>> positives = np.bincount(bag, labels)[bag]                        # known: how many of each bag, in each row
    >>> model = WeakClassifier("linear", kind="proportions", epochs=30, learning_rate=0.05, random_state=0)
    >>> model.fit(X, positives, groups=bag)
    WeakClassifier(epochs=30, kind='proportions', learning_rate=0.05, model='linear', random_state=0)
    >>> bool((model.predict(X) == labels).mean() > 0.95)
    True
    >>> positives[24], model.posterior_[24:32, 1].sum().round(6)         # the posterior of a bag keeps its count
    (np.float64(4.0), np.float64(4.0))
    """

    __metadata_request__fit = {"groups": True}  # noqa: RUF012
    __metadata_request__score = {"groups": True}  # noqa: RUF012

    @takes_old_names
    def __init__(
        self,
        model: str | nn.Module | MakeModel = "auto",
        base_estimator: Any = None,
        *,
        kind: str | KindClass | BuildKind | None = None,
        kind_options: Mapping[str, Any] | None = None,
        classes: Sequence[Any] | None = None,
        model_options: Mapping[str, Any] | None = None,
        method: str | AbstractMethod = "glws",
        method_options: Mapping[str, Any] | None = None,
        epochs: int | None = None,
        batch_size: int | Sequence[int] | None = None,
        learning_rate: float | None = None,
        weight_decay: float | None = None,
        recipe: Literal["published"] | None = None,
        training_options: Mapping[str, Any] | None = None,
        standardize: bool = True,
        columns: Mapping[str, Any] | None = None,
        start: Literal["network", "even"] = "network",
        rounds: int = 5,
        folds: int = 3,
        calibrate_bags: bool | Literal["auto"] = "auto",
        random_state: Any = None,
        device: str = "auto",
        verbose: bool = False,
    ) -> None:
        self.model = model
        self.base_estimator = base_estimator
        self.kind = kind
        self.kind_options = kind_options
        self.classes = classes
        self.model_options = model_options
        self.method = method
        self.method_options = method_options
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.recipe = recipe
        self.training_options = training_options
        self.standardize = standardize
        self.columns = columns
        self.start = start
        self.rounds = rounds
        self.folds = folds
        self.calibrate_bags = calibrate_bags
        self.random_state = random_state
        self.device = device
        self.verbose = verbose

    def set_params(self, **params: Any) -> WeakClassifier:
        """Changes parameters by their names, as scikit-learn does."""
        super().set_params(**with_current_names(params, type(self).__name__))
        return self

    # ------------------------------------------------------------ learning

    def fit(self, X: Any, y: Any, groups: Any = None) -> WeakClassifier:
        """Learns from the rows of `X` and what `y` and `groups` say of them."""
        self._check_parameters()
        X, groups = bags.rows_of_bags(X, groups)
        features = self._features(X, is_new=True)
        self.prior_: float | None = None
        known = self._with_priors(features, self._reading().known(y, groups, features.shape[0]))
        check_learnable(known.groups, known.weak, known.classes.tolist())
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        self.classes_ = known.classes
        self._selection: Selection | None = None
        if self.base_estimator is None:
            self._fit_network(features, known, seed)
        else:
            self._fit_base(features, known, seed)
        self.noise_ = self._noise.estimates
        for line in weakly_identified(self.noise_):
            warnings.warn(line, ConvergenceWarning, stacklevel=2)
        self.posterior_ = row_posterior(self._log_probs(features), self._with_noise(known)).probs
        self._prepare_bags(features, known, seed)
        return self

    def _prepare_bags(self, features: Any, known: ParsedTargets, seed: int) -> None:
        """The rule for bags, and how sure its answers are."""
        self.bag_rule_: Any
        self.bag_rule_, self.bag_calibration_ = bags.bag_rule_of(known), None
        if self.bag_rule_ is not None and self._selection is not None and self.calibrate_bags:
            self.bag_calibration_ = bags.calibrated(known, _held_out_odds(self._selection, self.bag_rule_))
        elif self.bag_rule_ is not None and bags.is_cross_fitted(self.calibrate_bags, known):
            self.bag_calibration_ = bags.cross_fitted(
                known,
                int(self.folds),
                seed,
                lambda part, groups: self._trained_on(part, features, seed)._bag_odds(features, groups),
            )

    def _trained_on(self, part: ParsedTargets, features: Any, seed: int) -> WeakClassifier:
        """A copy of this estimator that is trained on part of the weak labels."""
        inner: WeakClassifier = clone(self)
        inner.classes_, inner.bag_rule_, inner.n_features_in_ = self.classes_, self.bag_rule_, self.n_features_in_
        inner.verbose = False
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the fit on all bags has shown them
            if self.base_estimator is None:
                inner._fit_network(features, part, seed)
            else:
                inner._fit_base(features, part, seed)
        return inner

    @property
    def _is_auto(self) -> bool:
        """Whether the mixture of models is asked for: "auto", and no option of one network or classifier."""
        chosen = (self.base_estimator, self.model_options, self.method_options, self.recipe)
        is_named = isinstance(self.model, str) and self.model == AUTO and self.method == "glws"
        return is_named and all(option is None for option in chosen) and not {*self._training()} - {"device"}

    def _fit_network(self, features: Array, known: ParsedTargets, seed: int) -> None:
        self.scaler_ = Standardizer.from_scaling(self._scaling(features))
        learned = self._learner(seed).fit(self.scaler_.transform(features), known)
        self.network_, self._noise, self._selection = learned.network, learned.noise, learned.selection
        if learned.selection is None:
            self.loss_curve_ = learned.losses
        else:
            self.candidates_ = learned.selection.candidates

    def _scaling(self, features: Any) -> Scaling | None:
        """That of the features, with a warning for values that are lost in float32."""
        scaling = Standardizer.of(features).as_scaling() if self.standardize else None
        if not isinstance(features, np.ndarray):
            return scaling
        names = getattr(self, "feature_names_in_", [f"x{number}" for number in range(features.shape[1])])
        for line in lost_values(features, scaling, names):
            warnings.warn(line, stacklevel=4)
        return scaling

    def _fit_base(self, features: Any, known: ParsedTargets, seed: int) -> None:
        base = self.base_estimator
        if isinstance(features, MixedRows):
            self.scaler_ = Standardizer.of(features) if self.standardize else Standardizer()
            base = features.naming_categories(base)
        begun = first_posterior(known, features.shape[0])
        rows = np.flatnonzero(informed_rows(known, features.shape[0], seed))
        if not len(rows):
            raise DataError("no weak label tells anything: each allows every labeling")
        if self.start == "network" and is_open(begun, rows):
            shown = for_starting_network(features)
            start = self._learner(seed).fit(shown, known)
            known = replace(known, weak=start.noise.relearned(known.weak))
            begun = row_posterior(network_log_probs(start.network, shown), known)
        soft_em = SoftEM(base, int(self.rounds), int(self.folds), seed, bool(self.verbose))
        learned = soft_em.fit(self._for_base(features), known, begun, rows)
        self.estimator_, self.num_rows_, self.loss_curve_, self._noise = learned

    def _learner(self, seed: int) -> NetworkLearner:
        is_open = isinstance(self.model, str) and self.model == AUTO and not self._is_auto
        model = "mlp" if is_open else self.model
        return NetworkLearner(
            model,
            self.model_options,
            self.method,
            self.method_options,
            self.recipe,
            self._training(),
            seed,
            bool(self.verbose),
        )

    def _training(self) -> dict[str, Any]:
        """What is chosen of `TrainingConfig`: parameters of the same names, and `training_options`."""
        named = {name: getattr(self, name) for name in TRAINING}
        if self.device == "auto":
            del named["device"]
        found = {name: _plain(value) for name, value in named.items() if value is not None}
        for name, value in (self.training_options or {}).items():
            if name in found:
                raise ConfigError(f"`{name}` is given twice, also in `training_options`; leave one of them out")
            found[name] = _plain(value)
        return found

    # ------------------------------------------------------------ answering

    def predict_proba(self, X: Any) -> Any:
        """The probability of each class, in the order of `classes_`, for each row by itself: [rows, classes].

        Of a list of bags a list of such arrays.
        """
        check_is_fitted(self)
        features = self._features(bags.rows_of_bags(X)[0], is_new=False)
        if self.base_estimator is None:
            return bags.like_bags(X, np.exp(self._log_probs(features)))
        return bags.like_bags(X, class_table(self.estimator_, self._for_base(features), len(self.classes_)))

    def predict(self, X: Any) -> Any:
        """The most likely class of each row; of a network that was given `shares`, the best for balanced accuracy."""
        check_is_fitted(self)
        features = self._features(bags.rows_of_bags(X)[0], is_new=False)
        return bags.like_bags(X, np.asarray(self.classes_[self._decided(features)]))

    # ------------------------------------------------------------ answers about bags

    def predict_bags(self, X: Any, groups: Any = None) -> NDArray[Any]:
        """What each bag is, for kinds that label whole bags: the name of the class that it has, or of the other.

        `groups` is the name of its bag for each row, and the answers are in the order of the sorted names
        (`numpy.unique(groups)`); or `X` is a list with one array for each bag. With several counted classes of more
        than two, 1 or 0; with the set of all present classes, a mask [bags, classes].
        """
        odds = self._asked_bags(X, groups)
        return bags.named(odds, self.bag_rule_, self.classes_)

    def predict_proba_bags(self, X: Any, groups: Any = None) -> Array:
        """The probability that no row of a bag is of the counted class, and that one is, [bags, 2].

        It is 1 - Π (1 - p_j) of the rows, recalibrated on bags that were not trained on (`calibrate_bags`). With the
        set of all present classes, the probability of each class being present [bags, classes].
        """
        return bags.probabilities(self._asked_bags(X, groups))

    def bag_scores(self, X: Any, y: Any, groups: Any = None) -> dict[str, float | None]:
        """Accuracy, balanced accuracy, AUC, calibration error and log-likelihood of the labels of bags.

        `y` and `groups` are what they are in `fit`. `score` is the mean log-likelihood, without recalibration.
        """
        odds = self._asked_bags(X, groups)
        X, groups = bags.rows_of_bags(X, groups)
        reading = TargetParser(self.kind, self.kind_options, list(self.classes_), is_new=False)
        return bags.scored(odds, reading.known(y, groups, len(X)))

    def bag_attention(self, X: Any, groups: Any = None) -> Any:
        """The weight of each row in the prediction for its bag, of a method with attention; 1 in sum over a bag."""
        members, features = self._bag_rows(X, groups)
        if self.base_estimator is not None or self._selection is not None:
            raise DataError("attention weights are those of a network; this classifier has none")
        rows = rows_for_network(self.scaler_.transform(features), torch.float64)
        weights = self.network_.attention(rows, members)
        return bags.like_bags(X, weights.numpy())

    def _asked_bags(self, X: Any, groups: Any) -> Tensor:
        members, features = self._bag_rows(X, groups)
        odds = self._bag_odds(features, members)
        return odds if self.bag_calibration_ is None else self.bag_calibration_(odds)

    def _bag_rows(self, X: Any, groups: Any) -> tuple[Groups, Any]:
        check_is_fitted(self)
        if self.bag_rule_ is None:
            raise DataError(
                'these weak labels say nothing about whole bags; kind="multi_instance" does '
                "(predict answers for single rows)"
            )
        rows, names = bags.rows_of_bags(X, groups)
        if names is None:
            raise DataError(
                "pass groups=, the name of its bag for each row, or X as a list with one array for each bag"
            )
        features = self._features(rows, is_new=False)
        members = groups_of(names, features.shape[0], features.shape[0])
        members.check(features.shape[0])
        return members, features

    def _bag_odds(self, features: Any, groups: Groups) -> Tensor:
        """Log-odds [bags, questions], not recalibrated."""
        assert self.bag_rule_ is not None
        if self.base_estimator is None:
            rows = rows_for_network(self.scaler_.transform(features), torch.float64)
            return self.network_.bag_log_odds(rows, groups, self.bag_rule_)
        known = torch.as_tensor(self._log_probs(features))
        return bag_log_odds_of(groups, self.bag_rule_, lambda numbers: known[numbers])

    def score(self, X: Any, y: Any, groups: Any = None, sample_weight: Any = None) -> float:
        """How good the predictions are, more being better; `y` and `groups` are what they are in `fit`.

        For class labels the accuracy, over the rows that have one, weighted if asked. For everything weaker the mean
        over groups of log p(w | x): on groups that nothing was learned from, a fair comparison of models without a
        single true label. With a `kind` set, compare with true labels by `accuracy_score(labels, model.predict(X))`.
        """
        check_is_fitted(self)
        X, groups = bags.rows_of_bags(X, groups)
        features = self._features(X, is_new=False)
        reading = TargetParser(self.kind, self.kind_options, list(self.classes_), is_new=False)
        known = self._with_priors(features, reading.known(y, groups, features.shape[0]))
        if known.labels is not None:
            return _accuracy(self._decided(features), known.labels, sample_weight)
        if sample_weight is not None:
            raise DataError("rows can be weighted where y are class labels; weak labels are of groups")
        return float(row_posterior(self._log_probs(features), self._with_noise(known)).log_likelihood.mean())

    def _with_noise(self, known: ParsedTargets) -> ParsedTargets:
        """The weak labels with the learned noise."""
        return replace(known, weak=self._noise.relearned(known.weak))

    def _decided(self, features: Any) -> NDArray[np.int64]:
        """The class of each row by its number."""
        if self.base_estimator is None:
            return decided(self.network_, self.scaler_.transform(features))
        return np.asarray(class_table(self.estimator_, self._for_base(features), len(self.classes_)).argmax(1))

    def _log_probs(self, features: Any) -> Array:
        """Log-probabilities that rule nothing out."""
        if self.base_estimator is None:
            return network_log_probs(self.network_, self.scaler_.transform(features))
        return log_probs(self.estimator_, self._for_base(features), len(self.classes_), self.num_rows_)

    def _for_base(self, features: Any) -> Any:
        """The features as the base estimator takes them."""
        if not isinstance(features, MixedRows):
            return features
        return features.for_estimator(self.base_estimator, self.scaler_.as_scaling())

    # ------------------------------------------------------------ what was given

    def _reading(self) -> TargetParser:
        return TargetParser(self.kind, self.kind_options, self.classes)

    def _with_priors(self, features: Any, known: ParsedTargets) -> ParsedTargets:
        """With estimates of the class priors that are to be estimated; after `fit`, those of `fit`."""
        if self.prior_ is not None:
            weak: Any = [kind.with_prior(self.prior_) if _is_open(kind) else kind for kind in known.weak]
        else:
            weak = with_estimated_priors(known.groups, known.weak, lambda rows: dense(features, rows), 0)
            self.prior_ = next((kind.prior for kind in weak if isinstance(kind, PositiveUnlabeled)), None)
        return replace(known, weak=tuple(weak))

    def _features(self, X: Any, is_new: bool) -> Any:
        tags = get_tags(self).input_tags
        if kind_of(self.kind) is PositiveUnlabeled:
            check_positive_unlabeled_tools(is_new)
        else:
            check_tools(self.kind if is_new and not holds_classes(self.kind) else None)
        schema = None if is_new else getattr(self, "schema_", None)
        frame = X if self.columns and is_frame(X) else as_frame(X, schema)
        if frame is not None and (is_new or schema is not None):
            return self._mixed(frame, schema)
        if is_new:
            self.schema_: Schema | None = None
        return validate_data(
            self,
            X,
            reset=is_new,
            dtype=np.float64 if self.base_estimator is None else "numeric",
            accept_sparse="csr" if tags.sparse else False,
            ensure_all_finite="allow-nan" if tags.allow_nan else True,
            ensure_min_samples=2 if is_new else 1,
        )

    def _mixed(self, frame: Any, schema: Schema | None) -> MixedRows:
        """The rows of a table of several types; its schema is inferred where it is learned from."""
        rows = mixed_rows(frame, self.columns or {}, schema)
        if schema is None:
            self.schema_ = rows.schema
            self.feature_names_in_ = np.array(rows.schema.feature_names, object)
            self.n_features_in_ = len(self.feature_names_in_)
        return rows

    def _check_parameters(self) -> None:
        _check("rounds", _plain(self.rounds), whole(0))
        _check("folds", _plain(self.folds), whole(2))
        _check("calibrate_bags", self.calibrate_bags, either(switch(), one_of("auto")))
        _check("start", self.start, one_of("network", "even"))
        _check("recipe", self.recipe, nothing_or(one_of("published")))
        base = self.base_estimator
        if base is not None and not (hasattr(base, "predict_proba") and has_fit_parameter(base, "sample_weight")):
            name = type(base).__name__
            raise ConfigError(f"`base_estimator` must have predict_proba and take sample_weight in fit. Got {name}.")

    def __sklearn_tags__(self) -> Any:
        """What is promised to scikit-learn: gaps and sparse features where the base estimator takes them."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        if self.base_estimator is not None:
            inner = get_tags(self.base_estimator).input_tags
            tags.input_tags.allow_nan, tags.input_tags.sparse = inner.allow_nan, inner.sparse
        return tags


def _held_out_odds(found: Selection, rule: BagRule) -> Tensor:
    """Log-odds of the bags that were trained on, by the models of folds that were not."""
    rows = torch.from_numpy(found.held_out_log_probs)
    return bag_log_odds_of(found.held_out.known.groups[0], rule, lambda numbers: rows[numbers])


def _accuracy(decided: NDArray[np.int64], labels: NDArray[np.int64], weight: Any) -> float:
    there = labels >= 0
    weights = None if weight is None else np.asarray(weight, np.float64)[there]
    return float(np.average((decided == labels)[there], weights=weights))


def _is_open(kind: Any) -> TypeGuard[PositiveUnlabeled]:
    return isinstance(kind, PositiveUnlabeled) and kind.needs_prior


def _check(name: str, value: Any, rule: Rule) -> None:
    words, holds = rule
    if not holds(value):
        raise ConfigError(f"`{name}` must be {words}. Got {value!r}.")


def _plain(value: Any) -> Any:
    """Numbers of numpy, as a grid of parameters may hold them, as Python's own."""
    return value.item() if isinstance(value, np.generic) else value
