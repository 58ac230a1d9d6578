"""The constraint language: rules about the labels of a group, parsed safely."""

from glws.automata._language.compiler import constraint as constraint
