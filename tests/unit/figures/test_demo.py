"""What `make figures` writes into the README."""

import pytest

from tests.figures.demo import put_into

TOLD = """digits:
 update   all

 1        90.0 %
plot: here/a.png (all of this took 3 s)
their services have ended; zstci demo --keep leaves them running, to look at:
  http://127.0.0.1:PORT/docs
"""
README = "before\n<!-- Written by make figures: begin -->\nold\n<!-- Written by make figures: end -->\nafter\n"


def test_a_table_and_its_plots_take_the_place_of_the_old_ones():
    written = put_into(README, TOLD)
    assert written.startswith("before\n")
    assert written.endswith("\nafter\n")
    assert "\n     update   all\n\n     1        90.0 %\n" in written
    assert "\n![The demo](here/a.png)\n" in written
    assert "old" not in written
    assert "PORT" not in written
    assert put_into(written, TOLD) == written


def test_a_readme_without_a_place_for_it_is_refused():
    with pytest.raises(ValueError, match="put them where the demo belongs"):
        put_into("nothing", TOLD)
