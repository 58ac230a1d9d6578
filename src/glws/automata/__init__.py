"""What can be known about labels: weighted automata, their algebra, builders and the constraint language. No torch."""

from glws.automata.automaton import Automaton as Automaton
from glws.automata.builders import all_equal as all_equal
from glws.automata.builders import any_of as any_of
from glws.automata.builders import anything as anything
from glws.automata.builders import at_least as at_least
from glws.automata.builders import at_most as at_most
from glws.automata.builders import between as between
from glws.automata.builders import exactly as exactly
from glws.automata.builders import from_counts as from_counts
from glws.automata.builders import from_table as from_table
from glws.automata.builders import majority as majority
from glws.automata.builders import none_of as none_of
from glws.automata.builders import nothing as nothing
from glws.automata.builders import string as string
from glws.automata.explore import STATE_BUDGET as STATE_BUDGET
from glws.automata.explore import state_budget as state_budget
from glws.automata.language import constraint as constraint
from glws.automata.regex import from_regex as from_regex
