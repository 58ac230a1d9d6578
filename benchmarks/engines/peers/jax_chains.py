"""dynamax: hidden Markov models in JAX, compiled for the shape and mapped over groups; compiling is not timed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.engines.contest import Answer, Call
from benchmarks.engines.tasks.inputs import CountInputs, TrellisInputs


def counts_by_gradient(inputs: CountInputs) -> Call:
    """States are (count, label), the label is observed; posteriors from the gradient of the filter."""
    import jax  # type: ignore[import-not-found,import-untyped,unused-ignore]

    start, step, labels, end = _count_states(inputs)
    dtype = inputs.log_one.numpy().dtype

    def log_likelihood(log_one: Any, log_zero: Any) -> Any:
        emissions = jax.numpy.stack([log_zero, log_one], 1)[:, labels].at[-1].add(end.astype(log_one.dtype))
        return _filter(start.astype(dtype), step.astype(dtype), emissions)

    return _compiled(jax.value_and_grad(log_likelihood), inputs.log_one.numpy(), inputs.log_zero.numpy())


def counts_in_float32(inputs: CountInputs) -> Call:
    """The same in single precision."""
    return counts_by_gradient(CountInputs(inputs.log_zero.float(), inputs.log_one.float(), inputs.count))


def counts_by_smoother(inputs: CountInputs) -> Call:
    """The same states with the library's forward-backward pass."""
    import jax
    from dynamax.hidden_markov_model import hmm_smoother  # type: ignore[import-not-found,import-untyped,unused-ignore]

    start, step, labels, end = _count_states(inputs)

    def posterior(log_one: Any, log_zero: Any) -> Any:
        emissions = jax.numpy.stack([log_zero, log_one], 1)[:, labels].at[-1].add(end)
        found = hmm_smoother(start, step, emissions)
        return found.marginal_loglik, found.smoothed_probs[:, 1::2].sum(1)

    return _compiled(posterior, inputs.log_one.numpy(), inputs.log_zero.numpy())


def trellis(inputs: TrellisInputs) -> Call:
    """States are those of the automaton; each instance has its own matrix of transitions."""
    import jax

    moves, final = inputs.moves, inputs.final
    instances = inputs.log_probs.shape[1]
    end = np.zeros((instances, len(final)), dtype=np.float32)
    end[-1] = np.where(final, 0.0, -np.inf)

    def log_likelihood(log_probs: Any) -> Any:
        steps = jax.numpy.einsum("lk,kst->lst", jax.numpy.exp(log_probs), moves)
        return _filter(steps[0, 0], steps[1:], end)

    return _compiled(jax.value_and_grad(log_likelihood), inputs.log_probs.numpy())


def _count_states(inputs: CountInputs) -> tuple[Any, ...]:
    """Initial state, transitions, label of each state, and final log-weights."""
    count, label = np.divmod(np.arange(2 * inputs.count + 2), 2)
    step = (count[None, :] == count[:, None] + label[None, :]).astype(np.float64)
    return (count == label).astype(np.float64), step, label, np.where(count == inputs.count, 0.0, -np.inf)


def _filter(start: Any, steps: Any, emissions: Any) -> Any:
    from dynamax.hidden_markov_model import hmm_filter

    return hmm_filter(start, steps, emissions).marginal_loglik


def _compiled(function: Callable[..., Any], *arguments: Any) -> Call:
    import dynamax.hidden_markov_model  # type: ignore[import-not-found,import-untyped,unused-ignore]  # noqa: F401
    import jax

    jax.config.update("jax_enable_x64", True)
    compiled = jax.jit(jax.vmap(function))
    given = [jax.numpy.asarray(argument) for argument in arguments]
    return lambda: Answer(*jax.block_until_ready(compiled(*given)))
