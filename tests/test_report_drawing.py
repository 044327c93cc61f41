"""Lines with bands: where their ticks stand, and what a line of one point shows."""

from __future__ import annotations

import re

import pytest

from dissensus.report.charts import Axis, Line, Path, plot
from dissensus.report.svg import Style


def drawn(path: Path) -> str:
    return str(plot("h", [Line("a", Style(0), path)], x=Axis("x"), y=Axis("y")).drawing)


def along_the_bottom(path: Path) -> list[str]:
    return re.findall(r'text-anchor="middle"[^>]*>([^<]+)<', drawn(path))[:-1]  # the last is the axis' title


@pytest.mark.parametrize(
    ("at", "ticks"),
    [
        ((5, 10, 25, 50), ["5", "10", "25", "50"]),
        ((0.0, 0.0783289, 0.16439141, 0.2725782), ["0", "0.05", "0.1", "0.15", "0.2", "0.25"]),
        (range(1, 37), ["10", "20", "30"]),
    ],
)
def test_few_whole_numbers_are_their_own_ticks_and_others_get_round_ones(at, ticks):
    assert along_the_bottom([(float(x), 1.0, 0.1) for x in at]) == ticks


def test_the_spread_of_a_single_point_is_a_bar_and_of_several_a_band():
    assert 'class="band"' not in drawn([(5.0, 1.0, 0.25)])
    assert drawn([(5.0, 1.0, 0.25)]).count('class="line"') > drawn([(5.0, 1.0, 0.0)]).count('class="line"')
    assert 'class="band"' in drawn([(5.0, 1.0, 0.25), (10.0, 1.0, 0.25)])
