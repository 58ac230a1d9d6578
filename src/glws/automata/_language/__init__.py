"""The constraint language: what a person would write about the labels of a group, read safely."""

from glws.automata._language.compiler import constraint as constraint
