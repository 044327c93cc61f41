"""The chart kit: ticks that are round and inside, text that cannot break out, looks that do not repeat."""

from __future__ import annotations

from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissensus.report import svg

numbers = st.floats(-1e6, 1e6, allow_nan=False)


@given(numbers, st.floats(1e-6, 1e6), st.integers(2, 8))
def test_ticks_lie_inside_the_range_evenly_and_are_a_few(low, width, about):
    high = low + width
    ticks = svg.nice_ticks(low, high, about)
    slack = 1e-6 * max(abs(low), abs(high), 1)
    assert all(low - slack <= tick <= high + slack for tick in ticks)
    assert len(ticks) <= about + 1
    steps = [after - before for before, after in pairwise(ticks)]
    assert all(step == pytest.approx(steps[0], abs=slack) for step in steps)


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"])))
def test_any_text_stays_text_in_elements_and_attributes(words):
    element = ElementTree.fromstring(svg.tag("text", words, data_name=words))
    assert (element.text or "") == words
    assert element.get("data-name", "").split() == words.split()


@given(st.lists(numbers))
def test_a_padded_range_holds_all_values_and_is_never_empty(values):
    low, high = svg.padded(values)
    assert low < high
    assert all(low < value < high for value in values)


@pytest.mark.parametrize("shape", svg.SHAPES)
def test_every_marker_is_one_well_formed_element_around_its_point(shape):
    drawn = ElementTree.fromstring(svg.marker((10, 20), shape, 5, class_="mark"))
    assert drawn.tag in ("circle", "path")
    assert drawn.get("class") == "mark"


def test_no_two_of_fifty_six_methods_look_alike():
    looks = {(style.css, style.shape) for style in map(svg.Style, range(56))}
    assert len(looks) == 56


def test_a_chart_puts_the_corners_of_the_data_at_the_corners_of_the_plot():
    chart = svg.Chart(100, 80, (0, 1), (0, 2), svg.Margins(10, 5, 4, 20), "label")
    assert chart.at(0, 0) == (10, 60)
    assert chart.at(1, 2) == (95, 4)
