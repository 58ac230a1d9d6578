"""The planted faults of `make mutants` still have their places, so that a change of the source does not lose them."""

import pytest
from mutants import MUTANTS, ROOT, Mutant


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_planted_fault_has_its_place_and_the_tests_that_must_notice_it(mutant: Mutant) -> None:
    text = (ROOT / "src" / "glws" / mutant.file).read_text()
    assert mutant.right in text
    assert mutant.right != mutant.wrong
    assert all((ROOT / path).is_file() for path in mutant.tests)


def test_faults_have_names_of_their_own() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
