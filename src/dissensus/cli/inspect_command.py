"""`inspect`: what the votes look like, who voted, and where people disagree."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import click

from dissensus.cli.inputs import keep_inputs, read_as_json, vote_options, votes_from, write_text

SHOWN_ANNOTATORS = 10
SHOWN_ITEMS = 5


@click.command(
    epilog="""\b
Examples:
  dissensus inspect votes.csv
  dissensus inspect votes.csv --html votes.html
  dissensus inspect ratings.tsv --items instance_id --annotators user_id --labels politeness
  dissensus inspect cifar10h-counts.npy --json
""",
)
@click.argument("votes_file", metavar="VOTES")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with every annotator and their confusions.")
@click.option("--html", "html_file", metavar="FILE", help="Write a page with charts and tables, too.")
@vote_options
def inspect(votes_file: str, as_json: bool, html_file: str | None, **options: Any) -> None:
    """Describe VOTES: items, votes, annotators, classes, agreement, ties, disputed items.

    VOTES is a long table (one row per vote: CSV, TSV, JSONL, Parquet), a wide table (items × annotators) or a matrix of
    counts (npy, npz, CSV, Parquet).

    Where it is known who voted, annotators who are worth a second look are listed: too few votes, all in one class,
    agreement no better than chance, or copies of each other. The rules are printed with them.
    """
    from dissensus.votes import inspect_votes

    if html_file is not None:
        keep_inputs(html_file, votes_file)
    votes = votes_from(votes_file, options)
    facts = {"read_as": read_as_json(votes), **inspect_votes(votes)}
    if html_file is not None:
        from dissensus.report.inspection_page import inspection_html

        write_text(html_file, inspection_html(votes_file, facts, votes.read_as))
    if as_json:
        click.echo(json.dumps(facts, ensure_ascii=False, indent=1))
    else:
        _print_facts(votes_file, facts)
        if html_file is not None:
            click.echo(f"\nThe page is in {html_file}")


def _print_facts(name: str, facts: dict[str, Any]) -> None:
    per_item, n = facts["votes_per_item"], facts["items"]
    people = "unknown" if facts["annotators"] is None else f"{facts['annotators']:,}"
    lines = [
        ("items", f"{n:,}"),
        ("votes", f"{facts['votes']:,}"),
        ("annotators", people),
        ("votes per item", f"{per_item['fewest']} to {per_item['most']}, mean {per_item['mean']:.2f}"),
        ("unanimous", f"{facts['unanimous_items']:,} items ({facts['unanimous_items'] / n:.1%})"),
        ("no unique majority", f"{facts['tied_items']:,} items ({facts['tied_items'] / n:.1%})"),
        ("mean entropy", f"{facts['mean_entropy']:.4f} nats"),
        ("Krippendorff's alpha", _alpha(facts)),
    ]
    click.echo(click.style(name, bold=True))
    for label, value in lines:
        click.echo(f"  {label:<22}{value}")
    click.echo("\n  votes by class")
    _bars(facts["classes"])
    histogram = facts["entropy_histogram"]
    edges = histogram["edges"]
    bins = {"0 (unanimous)": histogram["zero"]}
    for low, high, count in zip(edges[:-1], edges[1:], histogram["counts"], strict=True):
        bins[f"to {high:.2f}" if low else f"above 0 to {high:.2f}"] = count
    click.echo("\n  items by vote entropy, in nats")
    _bars(bins)
    _print_disputed(facts["disputed_items"])
    if facts["annotators"] is not None and facts["annotator_table"] is None:
        click.echo("\n  annotators are not compared: annotators × classes is too large a table (are the labels classes?)")
    if facts["annotator_table"]:
        _print_annotators(facts["annotator_table"], facts["suspicion_rules"])


def _alpha(facts: dict[str, Any]) -> str:
    alpha, interval = facts["krippendorff_alpha"], facts["krippendorff_alpha_interval"]
    if alpha is None:
        return "undefined (no item has two votes, or all votes agree)"
    between = "" if interval is None else f" (95% interval over items {interval[0]:.4f} to {interval[1]:.4f})"
    return f"{alpha:.4f}{between}"


def _print_disputed(items: Sequence[dict[str, Any]]) -> None:
    if not items:
        return
    click.echo("\n  most disputed items")
    width = max(len(_short(item["item"])) for item in items[:SHOWN_ITEMS])
    for item in items[:SHOWN_ITEMS]:
        shown = list(item["counts"].items())[:5]
        counts = ", ".join(f"{_short(label)}: {count:,}" for label, count in shown)
        more = ", …" if len(item["counts"]) > len(shown) else ""
        click.echo(f"    {_short(item['item']):<{width}}  {counts}{more}")


def _print_annotators(people: Sequence[dict[str, Any]], rules: dict[str, str]) -> None:
    suspicious = [person for person in people if set(person["suspicious"]) - {"too few"}]
    few = sum("too few" in person["suspicious"] for person in people)
    agreements = sorted(person["agreement"] for person in people if person["agreement"] is not None)
    votes = sorted(person["votes"] for person in people)
    click.echo("\n  annotators")
    click.echo(f"    votes each    {votes[0]:,} to {votes[-1]:,}, median {votes[len(votes) // 2]:,}")
    if agreements:
        middle = agreements[len(agreements) // 2]
        click.echo(
            f"    agreement     {agreements[0]:.2f} to {agreements[-1]:.2f}, median {middle:.2f} "
            "(share of the others on an item who gave the same label)"
        )
    if few:
        click.echo(f"    too few       {few:,} have {rules['too few'].split(';')[0]}")
    if not suspicious:
        click.echo("    suspicious    none by the rules for one class, near chance and copies")
        return
    click.echo(f"    suspicious    {len(suspicious):,}: worth a second look, not a verdict")
    shown = sorted(suspicious, key=lambda person: -person["votes"])[:SHOWN_ANNOTATORS]
    names = [_short(person["name"]) for person in shown]
    width = max(map(len, names))
    click.echo(f"      {'':<{width}}  {'votes':>7}  agreement  by chance  why")
    for name, person in zip(names, shown, strict=True):
        reasons = [f"copy of {', '.join(map(_short, person['copies'][:3]))}" if reason == "copy" else reason
                   for reason in person["suspicious"]]  # fmt: skip
        numbers = f"{person['votes']:>7,}  {person['agreement']:>9.2f}  {person['chance']:>9.2f}"
        click.echo(f"      {name:<{width}}  {numbers}  {', '.join(reasons)}")
    if len(suspicious) > len(shown):
        click.echo(f"      … and {len(suspicious) - len(shown):,} more: --html or --json shows all")
    for reason in dict.fromkeys(reason for person in shown for reason in person["suspicious"]):
        click.echo(f"    {reason}: {rules[reason]}")


def _short(name: str, most: int = 40) -> str:
    flat = " ".join(name.split())
    return flat if len(flat) <= most else flat[: most - 1] + "…"


def _bars(counts: dict[str, int], width: int = 40, most: int = 20) -> None:
    """Print a horizontal bar chart; bars beyond `most` are added up in a last one."""
    shown = [(_short(label), count) for label, count in list(counts.items())[:most]]
    if len(counts) > most:
        shown.append((f"{len(counts) - most} others", sum(list(counts.values())[most:])))
    longest = max(len(label) for label, _ in shown)
    full = max(1, *(count for _, count in shown))
    for label, count in shown:
        eighths = round(8 * width * count / full)
        bar = "█" * (eighths // 8) + ("▏▎▍▌▋▊▉"[eighths % 8 - 1] if eighths % 8 else "")
        click.echo(f"    {label:<{longest}}  {bar} {count:,}")
