"""The report, through its one door: a experiment and a ledger in, three files out."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from statistics import fmean
from typing import get_args

import numpy as np
import pytest

from dissensus import metrics, report, stats
from dissensus.errors import InputError
from dissensus.experiments.description import Experiment, PaperNumber, Printed, from_json, to_json
from dissensus.metrics import temperature as calibrate
from dissensus.random import numpy_generator
from dissensus.report import png
from dissensus.store.ledger import Ledger
from fake_study import COLUMNS, GOOD, METHODS, Fake, Page, experiment_of, page_of, score_table, shown


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> tuple[Experiment[str], Ledger, report.Written]:
    """Two tables, three methods, three seeds; written once, read by many tests."""
    folder = tmp_path_factory.mktemp("study")
    pictures = numpy_generator(0, "probe", "pictures").integers(0, 256, (5, 1, 8, 8), dtype=np.uint8)
    fake = Fake(Ledger(folder / "ledger"), images=pictures)
    tables = fake.table("20 votes", METHODS, range(3)), fake.table("3 votes", METHODS, range(3), note="Sparse.")
    experiment = experiment_of(*tables)
    return experiment, fake.ledger, report.write(experiment, fake.ledger, folder)


def test_every_number_of_the_html_tables_is_the_one_recomputed_from_the_runs(study):
    experiment, ledger, paths = study
    tables = page_of(paths).tables
    for table in experiment.score_tables:
        baseline = table.cells[table.baseline][""]
        for calibration in ("raw", *get_args(calibrate.Calibration)):
            rows = tables[f"{table.key}-last-{calibration}"][1:]
            for (label, points), cells in zip(table.cells.items(), rows, strict=False):
                runs = {seed: ledger.read(run) for seed, run in points[""].items()}
                for name, cell in zip(table.columns, cells[1:], strict=False):
                    values = [run.scores["last"][calibration][name] for run in runs.values()]
                    summary = stats.mean_sd(values)
                    spread = f" ± {shown(summary.sd)}" if len(set(values)) > 1 else ""
                    assert cell.replace(" (best)", "") == shown(summary.mean) + spread
                if label == table.baseline:
                    assert "baseline" in cells[-1]
                    continue
                ours = [run.scores["last"][calibration]["soft_nll"] for run in runs.values()]
                base = [ledger.read(run).scores["last"][calibration]["soft_nll"] for run in baseline.values()]
                test = stats.corrected_t(ours, base, test_to_train=40 / 160)
                assert f"{shown(test.low, 4)} to {shown(test.high, 4)}" in cells[-2]
                assert shown(test.mean_difference, 4) in cells[-2]


def test_floors_and_ceilings_stand_below_every_comparison(study):
    experiment, ledger, paths = study
    tables = page_of(paths).tables
    seeds = [ledger.read(run) for run in experiment.score_tables[0].cells["Soft"][""].values()]
    floor = fmean(run.scores["last"]["raw"]["soft_nll_floor"] for run in seeds)
    ceiling = fmean(run.scores["last"]["raw"]["entropy_spearman_ceiling"] for run in seeds)
    compared = [rows for name, rows in tables.items() if "-last-" in name]
    assert len(compared) == 6
    for rows in compared:
        by_name = {row[0].strip(): row for row in rows}
        assert by_name["Floor"][1].startswith(shown(floor))
        assert by_name["Floor"][2] == "0"
        assert any(cell.startswith(shown(ceiling)) for cell in by_name["Perfect model (estimate)"])


def test_the_best_mean_of_each_column_is_marked_by_the_direction_of_its_metric(study):
    _, _, paths = study
    rows = page_of(paths).tables["20-votes-last-raw"][1:4]
    for place, name in enumerate(COLUMNS, start=1):
        means = [float(row[place].split(" ")[0].replace("−", "-")) for row in rows]
        best = min(means) if metrics.METRICS[name].direction == "lower" else max(means)
        marked = [mean for mean, row in zip(means, rows, strict=True) if "(best)" in row[place]]
        assert marked
        assert set(marked) == {best}


def test_the_page_loads_nothing_from_outside(study):
    text = study[2].html.read_text(encoding="utf-8")
    assert "http" not in text.replace("http-equiv", "")
    assert "@import" not in text
    assert "url(" not in re.sub(r"url\(#[\w-]+\)", "", text)
    for tag, name, value in Page(text).attributes:
        if name in ("src", "href", "srcset", "action", "data", "poster"):
            assert value.startswith(("#", "data:image/png;base64,")), f"<{tag} {name}={value}>"


def test_links_inside_the_page_lead_somewhere(study):
    attributes = page_of(study[2]).attributes
    anchors = {value for _, name, value in attributes if name == "id"}
    links = {value[1:] for _, name, value in attributes if name == "href"}
    links |= set(re.findall(r"url\(#([\w-]+)\)", study[2].html.read_text(encoding="utf-8")))
    assert links
    assert links <= anchors
    assert len([value for _, name, value in attributes if name == "id"]) == len(anchors)


def test_figures_are_named_for_those_who_cannot_see_them(study):
    attributes = page_of(study[2]).attributes
    images = [value for tag, name, value in attributes if tag == "svg" and name == "role"]
    labels = [value for tag, name, value in attributes if tag == "svg" and name == "aria-label"]
    assert len(images) == len(labels) > 20
    assert all(labels)
    assert {value for tag, name, value in attributes if tag == "th" and name == "scope"} == {"col", "row"}
    assert all(value for tag, name, value in attributes if tag == "img" and name == "alt")


def test_a_second_report_of_the_same_runs_has_the_same_bytes(study, tmp_path):
    experiment, ledger, paths = study
    again = report.write(from_json(json.loads(json.dumps(to_json(experiment)))), Ledger(ledger.folder), tmp_path)
    for first, second in zip(paths[:3], again[:3], strict=True):
        assert first.read_bytes() == second.read_bytes()


def test_names_from_outside_are_shown_and_never_run(tmp_path):
    evil = """<script>alert("x")</script> & 'quote' {{ 7 * 7 }}"""
    fake = Fake(Ledger(tmp_path / "ledger"), classes=(evil, "b", "c"), notes=(f"note {evil}",))
    table = fake.table(f"table {evil}", {f"row {evil}": GOOD, "other": GOOD}, range(2), note=f"about {evil}")
    number = PaperNumber("", "other", "soft_nll", 0.5, 0.1, 3, f"source {evil}")
    table = replace(table, key="evil", printed=(Printed(number, "other", "soft_nll"),))
    experiment = experiment_of(
        table, title=evil, question=f"why {evil}", command=f"run {evil}", notes=(evil,), apart=(number,)
    )
    paths = report.write(experiment, fake.ledger, tmp_path)
    text = paths.html.read_text(encoding="utf-8")
    page = Page(text)
    assert text.count("<script>") == 1  # our own
    assert "49" not in page.tables["evil-last-raw"][0][0]
    for words in (
        f"table {evil}",
        f"row {evil}",
        f"note {evil}",
        f"why {evil}",
        f"run {evil}",
        f"about {evil}",
        f"source {evil}",
    ):
        assert words in page.text
    bare = re.sub(r"```.*?```", "", paths.markdown.read_text(encoding="utf-8"), flags=re.S)
    assert not re.search(r"(?<!\\)<(?!br>)", bare)


def test_the_csv_reads_back_to_exactly_the_scores_of_the_runs(study):
    experiment, ledger, paths = study
    seeds = paths.csv.with_name("seeds.csv").read_text(encoding="utf-8")
    starts = ("table", "row", "calibration")
    found = {
        (*(line[start] for start in starts), metric, line["seed"]): value
        for line in csv.DictReader(io.StringIO(seeds))
        for metric, value in line.items()
        if metric not in (*starts, "checkpoint", "seed", "temperature")
    }
    expected = {}
    for table in experiment.score_tables:
        for label, points in table.cells.items():
            for seed, run in points[""].items():
                for calibration, scores in ledger.read(run).scores["last"].items():
                    for name, value in scores.items():
                        if not isinstance(value, str):
                            expected[table.title, label, calibration, name, seed] = value
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        assert (None if found[key] == "" else float(found[key])) == value
    text = paths.csv.read_text(encoding="utf-8") + seeds
    assert str(ledger.folder.parent) not in text
    assert "seconds" not in text


def test_the_csv_and_the_markdown_hold_the_same_means_as_the_page(study):
    _, _, paths = study
    lines = list(csv.DictReader(io.StringIO(paths.csv.read_text(encoding="utf-8"))))
    markdown = paths.markdown.read_text(encoding="utf-8")
    page = page_of(paths)
    for one in lines:
        if one["statistic"] == "mean" and one["metric"] in COLUMNS:
            assert shown(float(one["value"])) in markdown
            assert shown(float(one["value"])) in page.text


def test_curves_reliability_entropies_and_gallery_are_drawn_for_every_table(study):
    anchors = {value for _, name, value in page_of(study[2]).attributes if name == "id"}
    for key in ("20-votes", "3-votes"):
        assert {f"{key}-{part}" for part in ("curves", "reliability", "entropy", "gallery")} <= anchors
    assert "picture" in anchors


def test_without_kept_predictions_the_page_says_so_and_draws_the_rest(tmp_path):
    fake = Fake(Ledger(tmp_path / "ledger"), keep=False)
    paths = report.write(experiment_of(fake.table("20 votes", METHODS, range(3))), fake.ledger, tmp_path)
    page = page_of(paths)
    anchors = {value for _, name, value in page.attributes if name == "id"}
    assert "20-votes-curves" in anchors
    assert not anchors & {"20-votes-reliability", "20-votes-entropy", "20-votes-gallery"}
    assert "predictions of Soft, Sampled and Majority were not kept" in page.text


def test_without_pictures_the_gallery_shows_the_bars_alone(tmp_path):
    fake = Fake(Ledger(tmp_path / "ledger"))
    page = page_of(report.write(experiment_of(fake.table("20 votes", METHODS, range(3))), fake.ledger, tmp_path))
    assert ("figure", "id", "20-votes-gallery") in page.attributes
    assert not [value for tag, _, value in page.attributes if tag == "img"]


def test_a_missing_run_is_named_and_left_out_of_the_mean(tmp_path):
    fake = Fake(Ledger(tmp_path / "ledger"))
    whole = fake.table("20 votes", METHODS, range(3))
    partial = {"": {**whole.cells["Sampled"][""], "3": "0" * 16}}
    never = {"": dict.fromkeys("012", "f" * 16)}
    experiment = experiment_of(replace(whole, cells={**whole.cells, "Sampled": partial, "Never": never}))
    paths = report.write(experiment, fake.ledger, tmp_path)
    page = page_of(paths)
    rows = {row[0].split("Sampled ×")[0].strip(): row for row in page.tables["20-votes-last-raw"]}
    mean = fmean(fake.ledger.read(run).scores["last"]["raw"]["soft_nll"] for run in whole.cells["Sampled"][""].values())
    assert rows["Sampled"][1].startswith(shown(mean))
    assert "3 of 4 seeds, 1 not finished" in rows["Sampled"][0]
    assert any("not finished: no run of this row" in cell for row in rows.values() for cell in row)
    assert "Sampled (seed 3), Never (seeds 0, 1, 2)" in page.text
    csv_text = paths.csv.read_text(encoding="utf-8")
    assert csv_text.count("not_finished") == 4
    assert "3 of 4" in paths.markdown.read_text(encoding="utf-8")


def test_a_row_with_fewer_seeds_is_not_called_best(tmp_path):
    fake = Fake(Ledger(tmp_path / "ledger"))
    whole = fake.table("20 votes", {"Majority": METHODS["Majority"], "Soft": GOOD}, range(3))
    begun = replace(whole, cells={**whole.cells, "Soft": {"": {"0": whole.cells["Soft"][""]["0"]}}})
    paths = report.write(experiment_of(begun), fake.ledger, tmp_path)
    assert "one pair of equal seeds allows no test" in paths.answers["20 votes"]
    assert "**" not in paths.markdown.read_text(encoding="utf-8").partition("## How to read this")[0].partition("###")[2]


def test_a_table_of_which_nothing_is_finished_is_said_to_be_so(tmp_path):
    table = score_table("empty", {"Soft": {"": {"0": "a" * 16}}, "Other": {"": {"0": "b" * 16}}})
    page = page_of(report.write(experiment_of(table), Ledger(tmp_path / "ledger"), tmp_path))
    assert "No run of this table is finished." in page.text


def test_an_unfinished_table_adds_nothing_on_how_tests_are_made(tmp_path):
    fake = Fake(Ledger(tmp_path / "ledger"), keep=False)
    tables = (
        fake.table("20 votes", METHODS, range(3)),
        score_table("3 votes", {"Soft": {"": {"0": "absent"}}, "Hard": {"": {"0": "none"}}}),
    )
    paths = report.write(experiment_of(*tables), fake.ledger, tmp_path)
    for text in (page_of(paths).text, paths.markdown.read_text(encoding="utf-8")):
        assert "Every seed draws its own" in text
        assert "All seeds share one split" not in text


def test_smoke_scale_carries_its_banner_and_other_scales_do_not(study, tmp_path):
    experiment, ledger, paths = study
    smoke = report.write(replace(experiment, scale="smoke"), ledger, tmp_path)
    for path in (smoke.html, smoke.markdown):
        assert "smoke scale: not evidence" in path.read_text(encoding="utf-8")
    for path in (paths.html, paths.markdown):
        assert "not evidence" not in path.read_text(encoding="utf-8")


def test_a_paper_s_number_stands_in_the_cell_of_ours_and_none_is_lost(tmp_path):
    fake = Fake(Ledger(tmp_path / "ledger"))
    table = fake.table("20 votes", METHODS, range(3))
    number = PaperNumber("", "Majority vote", "accuracy", 0.773, 0.011, 10, "002, table 1")
    apart = PaperNumber("", "Nobody", "accuracy", 0.5, None, None, "002, table 9")
    table = replace(table, printed=(Printed(number, "Majority", "accuracy"),))
    paths = report.write(experiment_of(table, apart=(apart,)), fake.ledger, tmp_path)
    page = page_of(paths)
    majority = next(row for row in page.tables["20-votes-last-raw"] if row[0].startswith("Majority"))
    assert [cell for cell in majority if "paper" in cell] == [next(c for c in majority if "paper 0.773 ± 0.011" in c)]
    assert "Nobody, accuracy: 0.5 (002, table 9)" in page.text
    assert "paper 0.773 ± 0.011" in paths.markdown.read_text(encoding="utf-8")


def test_the_best_epoch_has_a_block_of_its_own_where_runs_kept_one(tmp_path):
    fake = Fake(Ledger(tmp_path / "ledger"), checkpoints=("last", "best"))
    tables = page_of(report.write(experiment_of(fake.table("20 votes", METHODS, range(3))), fake.ledger, tmp_path)).tables
    assert {"20-votes-last-raw", "20-votes-best-raw"} <= tables.keys()


def test_runs_computed_differently_are_warned_of(tmp_path):
    ledger = Ledger(tmp_path / "ledger")
    here = Fake(ledger).table("20 votes", {"Soft": GOOD}, range(2))
    there = Fake(ledger, provenance={"threads": 8, "device": "cuda"}).table("20 votes", {"Other": GOOD}, range(2))
    paths = report.write(experiment_of(replace(here, cells={**here.cells, **there.cells})), ledger, tmp_path)
    assert (
        "Mixed provenance. These runs were not all computed alike: device (cpu, cuda); threads (1, 8)."
        in page_of(paths).text
    )
    assert "Mixed provenance" in paths.markdown.read_text(encoding="utf-8")


def test_a_run_that_was_interrupted_and_went_on_elsewhere_is_warned_of_too(tmp_path):
    fake = Fake(Ledger(tmp_path / "ledger"), provenance={"also_on": [{"threads": 2, "device": "cpu"}]})
    paths = report.write(experiment_of(fake.table("20 votes", {"Soft": GOOD}, range(2))), fake.ledger, tmp_path)
    assert "not all computed alike: threads (1, 2)." in page_of(paths).text


def test_the_setup_states_once_what_is_common_and_then_only_differences(study):
    page = page_of(study[2])
    differing = page.tables[""]
    assert differing[0] == ["table", "row", "target", "votes"]
    assert ["3 votes", "Majority", "Majority", "resampled (votes 3)"] in differing
    assert ["20 votes", "Soft", "Soft", "all"] in differing
    assert "mlp (hidden 32)" in page.text
    assert "dissensus run fake --scale laptop" in page.text


def test_an_infinite_score_is_shown_as_such_and_never_averaged(tmp_path):
    ledger = Ledger(tmp_path / "ledger")
    table = Fake(ledger, keep=False).table("20 votes", METHODS, range(3))
    whole = ledger.read(table.cells["Majority"][""]["1"])
    scores = {name: {**one, "soft_nll": None, "soft_nll_infinite_items": 4} for name, one in whole.scores["last"].items()}
    broken = replace(
        whole, spec=replace(whole.spec, settings={**whole.spec.settings, "epochs": 7}), scores={"last": scores}
    )
    ledger.publish(broken, {}, {})
    majority = {"": {**table.cells["Majority"][""], "1": broken.id}}
    changed = replace(table, cells={**table.cells, "Majority": majority})
    page = page_of(report.write(experiment_of(changed), ledger, tmp_path))
    cells = next(row for row in page.tables["20-votes-last-raw"] if row[0].startswith("Majority"))
    assert cells[1] == "∞"
    assert "cannot be compared" in cells[-1]
    assert "The soft NLL of Majority is infinite on some items" in page.text


def test_the_demo_sized_page_stays_below_a_megabyte_and_a_half(tmp_path):
    fake = Fake(Ledger(tmp_path / "ledger"), classes=tuple("0123456789"), items=360, votes=50, epochs=60)
    methods = {f"Method {number}": {"sharpness": 1.0, "blur": 0.1 * number} for number in range(7)}
    tables = [fake.table(title, methods, range(2)) for title in ("50 votes", "3 votes")]  # five seeds add no drawing
    paths = report.write(experiment_of(*tables), fake.ledger, tmp_path)
    assert paths.html.stat().st_size < 1_500_000


def test_a_folder_that_cannot_be_written_to_is_an_input_error(study, tmp_path):
    experiment, ledger, _ = study
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        report.write(experiment, ledger, tmp_path / "file" / "report")


@pytest.mark.parametrize("channels", [1, 3])
def test_a_png_decodes_to_the_same_pixels(channels):
    image = numpy_generator(0, "probe", "png").integers(0, 256, (channels, 5, 7), dtype=np.uint8)
    picture = pytest.importorskip("PIL.Image").open(io.BytesIO(png.encode(image)))
    assert np.array_equal(np.atleast_3d(np.asarray(picture)), image.transpose(1, 2, 0))


def test_a_png_of_other_than_bytes_is_refused():
    with pytest.raises(ValueError, match="not a uint8 image"):
        png.encode(np.zeros((1, 2, 2)))


def test_a_temperature_at_its_cold_bound_is_explained_and_others_are_not(tmp_path):
    told = {}
    for title, how in (
        ("always right", {"sharpness": 3.0, "blur": 0.0}),
        ("often wrong", {"sharpness": 0.3, "blur": 2.0}),
    ):
        fake = Fake(Ledger(tmp_path / title / "ledger"), items=8)
        experiment = experiment_of(fake.table(title, {"Soft": how}, range(2)))
        told[title] = report.write(experiment, fake.ledger, tmp_path / title).markdown.read_text(encoding="utf-8")
    assert "as cold as it may be" in told["always right"]
    assert "as cold as it may be" not in told["often wrong"]


def test_figures_of_a_large_table_show_the_baseline_and_the_best_and_say_so(tmp_path):
    fake = Fake(Ledger(tmp_path / "ledger"), items=12, keep=False)
    methods = {"Worst": {"sharpness": 9.0, "blur": 9.0}}
    methods |= {f"Method {number}": {"sharpness": 1.0, "blur": 0.2 + number / 10} for number in range(25)}
    experiment = experiment_of(fake.table("Many", methods, range(2)))
    paths = report.write(experiment, fake.ledger, tmp_path / "out")
    page = page_of(paths)
    assert "show 24 of 26 rows: Worst and those with the best soft NLL" in page.text
    assert len(page.tables["many-last-raw"]) == 1 + 26 + 2  # the head, all rows, and what is possible
    curves = page.text[page.text.index("Over the epochs") :]
    assert "Method 24" not in curves[: curves.index("After each epoch")]


def test_the_values_of_many_seeds_are_in_their_file_and_not_on_the_page(tmp_path):
    fake = Fake(Ledger(tmp_path / "ledger"), items=8, keep=False)
    for seeds, where in ((3, "seed 0: "), (21, "21 seeds: their values are in seeds.csv")):
        experiment = experiment_of(fake.table("Scores", {"Soft": GOOD, "Other": GOOD}, range(seeds)))
        paths = report.write(experiment, fake.ledger, tmp_path / str(seeds))
        titles = [value for tag, name, value in page_of(paths).attributes if (tag, name) == ("td", "title")]
        assert all(title.startswith(where) for title in titles)
        lines = paths.csv.with_name("seeds.csv").read_text(encoding="utf-8").splitlines()
        assert len(lines) == 1 + 2 * 3 * seeds  # methods × calibrations × seeds
        assert len(set(lines)) == len(lines)
