"""
In a scikit-learn pipeline
==========================

`WeakClassifier` is a scikit-learn estimator: pipelines, cross-validation and grid search work on weak labels, and the
score needs no true label.
"""

# %%
# Wine in bags of six; the share of one cultivar per bag is known.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from glws import WeakClassifier

X, cultivar = load_wine(return_X_y=True)
order = np.random.default_rng(0).permutation(len(X))
X, y = X[order], (cultivar[order] == 1).astype(int)
bag = np.arange(len(X)) // 6
count = np.bincount(bag, y)[bag]

# %%
# The grid is searched by the likelihood of the counts of held-out bags. Folds keep bags whole.

import sklearn

sklearn.set_config(enable_metadata_routing=True)
model = WeakClassifier("linear", kind="proportions", random_state=0, epochs=40, learning_rate=0.02)
model.set_fit_request(groups=True).set_score_request(groups=True)
pipeline = make_pipeline(StandardScaler(), PCA(), model)
search = GridSearchCV(pipeline, {"pca__n_components": [1, 2, 4, 8]}, cv=GroupKFold(3))
search.fit(X, count, groups=bag)
sklearn.set_config(enable_metadata_routing=False)
print("chosen:", search.best_params_)

# %%
# The score that chose, and the accuracy that nobody could see.

components = [1, 2, 4, 8]
found = search.cv_results_["mean_test_score"]
plt.figure(figsize=(6, 3))
plt.plot(components, found, "o-", color="#4c72b0")
plt.axvline(search.best_params_["pca__n_components"], color="#c44e52", linestyle=":")
plt.xlabel("principal components")
plt.ylabel("log-likelihood of held-out bags")
plt.tight_layout()
print(f"accuracy of the chosen model: {(search.predict(X) == y).mean():.3f}")
