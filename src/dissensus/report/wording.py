"""How numbers and names are written, in the page, in Markdown and in sentences alike."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, get_args

from dissensus.experiments.description import PaperNumber
from dissensus.metrics import METRICS
from dissensus.metrics import temperature as calibrate

MINUS = "−"

TITLES = {
    "soft_nll": "soft NLL",
    "kl": "KL to votes",
    "kl_to_truth": "KL to truth",
    "js": "JS",
    "js_distance": "JS distance",
    "soft_brier": "soft Brier",
    "nll_gold": "NLL of labels",
    "second_best_accuracy": "second-best accuracy",
    "ece_width_10": "ECE (10, width)",
    "ece_width_15": "ECE (15, width)",
    "ece_mass_15": "ECE (15, mass)",
    "smooth_ece": "smooth ECE",
    "entropy_pearson": "entropy corr. (Pearson)",
    "entropy_spearman": "entropy corr. (Spearman)",
}
TO_VOTES, TO_GOLD = get_args(calibrate.Calibration)
CALIBRATIONS = {"raw": "as trained", TO_VOTES: "tempered to votes", TO_GOLD: "tempered to labels"}
CHECKPOINTS = {"last": "last epoch", "best": "best epoch"}


def title(metric: str) -> str:
    """A metric's name for readers; the glossary gives its definition.

    >>> title("soft_nll"), title("confidence_right")
    ('soft NLL', 'confidence right')
    """
    return TITLES.get(metric, metric.replace("_", " "))


def direction(metric: str) -> str:
    """`lower` or `higher`, whichever is better, or `neither`."""
    return METRICS[metric].direction if metric in METRICS else "neither"


def unit(metric: str) -> str:
    """`nats`, or empty: shares and correlations explain themselves."""
    return "nats" if metric in METRICS and METRICS[metric].unit == "nats" else ""


def about(metric: str) -> str:
    """What a metric says, for the glossary; empty for one that `metrics` does not know."""
    return METRICS[metric].about if metric in METRICS else ""


def fixed(value: float | None, digits: int = 3) -> str:
    """A number with so many decimals and a real minus sign; never −0.

    >>> fixed(-0.25), fixed(-0.0001), fixed(None)
    ('−0.250', '0.000', '–')
    """
    if value is None:
        return "–"
    text = f"{value:.{digits}f}"
    return text.lstrip("-") if float(text) == 0 else text.replace("-", MINUS)


def signed(value: float, digits: int = 4) -> str:
    """The same with its sign always shown: a difference."""
    text = fixed(value, digits)
    return text if text.startswith(MINUS) or float(text) == 0 else f"+{text}"


def significant(value: float, digits: int = 2) -> str:
    """A size for a sentence: two significant digits, never an exponent.

    >>> significant(0.2134), significant(12.61), significant(0.00004)
    ('0.21', '13', '0.000040')
    """
    if value == 0:
        return "0"
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    return fixed(float(f"{mantissa}e{exponent}"), max(0, digits - 1 - int(exponent)))


def probability(p: float | None) -> str:
    """A p-value: two significant digits, and no pretence below a thousandth.

    >>> probability(0.0312), probability(0.00002), probability(1.0)
    ('0.031', '<0.001', '1')
    """
    if p is None:
        return "–"
    return "<0.001" if p < 0.001 else "1" if p > 0.995 else significant(p)


def p_value(p: float | None) -> str:
    """In a sentence.

    >>> p_value(0.0312), p_value(0.00002)
    ('p = 0.031', 'p < 0.001')
    """
    said = probability(p)
    return f"p < {said[1:]}" if said.startswith("<") else f"p = {said}"


def shortened(words: str, most: int) -> str:
    """For places where text cannot wrap; the whole stands in a tooltip or a table nearby."""
    return words if len(words) <= most else words[: most - 1] + "…"


def capital(words: str) -> str:
    """The first letter large, the others as they are.

    >>> capital("soft NLL")
    'Soft NLL'
    """
    return words[:1].upper() + words[1:]


def listed(parts: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def counted(n: int, noun: str) -> str:
    """`1 seed`, `5 seeds`."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def setting(value: Any) -> str:
    """A part of a spec in words; data are called by their own name.

    >>> setting({"name": "sampled", "every": 5})
    'sampled (every 5)'
    >>> setting({"name": "data_ref", "dataset": "digits", "options": [["votes", 3]], "digest": "9f3a"})
    'digits (digest 9f3a, options votes 3)'
    """
    if isinstance(value, dict):
        if value.get("name") == "data_ref":
            value = {"name": value["dataset"], "digest": value["digest"], "options": dict(value["options"])}
        name, rest = value.get("name"), {key: part for key, part in value.items() if key != "name"}
        inside = ", ".join(f"{key.replace('_', ' ')} {setting(part)}" for key, part in rest.items() if part != {})
        return inside if name is None else f"{name} ({inside})" if inside else str(name)
    if isinstance(value, (list, tuple)):
        return ", ".join(setting(part) for part in value) or "none"
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    return f"{value:g}" if isinstance(value, float) else str(value)


def mean_sd(mean: float | None, sd: float | None) -> str:
    """`0.412 ± 0.011`; without the second part where there is one seed, or all seeds have the same value.

    >>> mean_sd(0.412, 0.011), mean_sd(0.412, 0.0), mean_sd(0.412, None)
    ('0.412 ± 0.011', '0.412', '0.412')
    """
    return fixed(mean) + spread(mean, sd)


def spread(mean: float | None, sd: float | None) -> str:
    """` ± 0.011`, or nothing."""
    same = sd is None or sd <= 1e-12 * abs(mean or 0.0)  # equal numbers can be off from their mean by rounding
    return "" if same else f" ± {fixed(sd)}"


def interval(low: float | None, high: float | None) -> str:
    """`−0.0012 to 0.0034`."""
    return "–" if low is None or high is None else f"{fixed(low, 4)} to {fixed(high, 4)}"


def paper_value(printed: PaperNumber) -> str:
    """A number as its paper prints it, or its word: mean and sd with equally many decimals, a lone one without zeros."""
    if printed.words:
        return printed.words
    if printed.sd is None:
        return f"{printed.mean:g}".replace("-", MINUS)
    exponents = [Decimal(str(value)).normalize().as_tuple().exponent for value in (printed.mean, printed.sd)]
    places = max(0, *(-int(exponent) for exponent in exponents))
    return f"{printed.mean:.{places}f} ± {printed.sd:.{places}f}".replace("-", MINUS)


FINISHED_NOTE = (
    "over the seeds; where some are not finished, the row says so and leaves them out. The best mean of a column, "
    "among the rows with the most seeds, is bold. Scores are judged on items that training never saw, against all "
    "their votes"
)


def how_cells_are_tested(baseline: str, alternative: str, *, resampled: bool) -> str:
    """Which tests stand behind the p-values of an exhibit."""
    side = {"less": "one-sided, that the row is below", "greater": "one-sided, that the row is above"}
    t_test = "the paired t test" + (", corrected as every seed draws its own items (Nadeau and Bengio)" * resampled)
    return (
        f"p: exact Wilcoxon test in pairs against {baseline}, {side.get(alternative, alternative)}; Holm: corrected for "
        f"all cells of this exhibit; t: p of {t_test}, not corrected for their number."
    )


def method_of_test(*, resampled: bool) -> str:
    """Which test stands behind the intervals and p-values."""
    pairs = (
        "difference to the baseline in pairs of equal seed; the interval and p are of one comparison, Holm p is "
        "corrected for all rows of the table. "
    )
    if resampled:
        return pairs + (
            "Every seed draws its own evaluation items, so training sets overlap: the t test is the corrected one of "
            "Nadeau and Bengio"
        )
    return pairs + "All seeds share one split: the paired t test speaks of training noise, not of other items"
