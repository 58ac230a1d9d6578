"""The constraint language: rules about the labels of a group, parsed safely."""

from glws.automata._language.compiler import constraint as constraint
from glws.automata._language.exact_sums import SumRange as SumRange
from glws.automata._language.exact_sums import sum_range as sum_range
