"""Which column holds what, by its name.

Case, spaces, underscores and hyphens do not matter: `Worker ID`, `workerId` and `worker_id` are one name.
"""

from __future__ import annotations

import re
from typing import Literal

from dissensus.errors import InputError
from dissensus.votes.tables import FileTable

Role = Literal["item", "annotator", "label", "count", "gold"]
FLAGS: dict[Role, str] = {
    "item": "--items",
    "annotator": "--annotators",
    "label": "--labels",
    "count": "--count",
    "gold": "--labels",
}

# Two ranks per role: a name of the second rank counts only where no column has a name of the first.
NAMES: dict[Role, tuple[str, str]] = {
    "item": (
        "item items itemid task taskid instance instanceid example exampleid image imageid textid document documentid "
        "docid sample sampleid question questionid sentenceid pairid unitid filename",
        "id uid uuid index key",
    ),
    "annotator": (
        "annotator annotators annotatorid annotatedby annotatorname worker workers workerid user users userid username "
        "rater raters raterid coder coderid judge judgeid labeler labelerid labeller reviewer participant participantid "
        "completedby",
        "by who person",
    ),
    "label": (
        "label labels annotation annotations vote answer answers choice rating ratings response responses judgment "
        "judgement annotatorlabel",
        "class category value",
    ),
    "count": ("count counts nvotes numvotes votecount votes frequency freq", "n num times"),
    "gold": ("gold goldlabel truth groundtruth truelabel correct target", "label class category y"),
}
RANKS = {role: tuple(set(rank.split()) for rank in ranks) for role, ranks in NAMES.items()}
PERSON = re.compile(
    "(annotator|worker|user|rater|coder|judge|label+er|participant|reviewer|ann)[0-9]+|(rater|annotator)[a-z]"
)
ENDS_IN_ID = re.compile(r".*(?:[\W_]id|[\W_]ID|[a-z]I[dD])")
TOTALS = {"total", "totals", "sum", "all", "nvotes", "numvotes", "votes", "count", "counts", "n"}


def plain(name: str) -> str:
    """A column name without case and punctuation."""
    return re.sub(r"[\W_]+", "", name.lower())


def looks_like_person(name: str) -> bool:
    """Whether a column is named as a numbered annotator: `annotator_1`, `rater B`."""
    return PERSON.fullmatch(plain(name)) is not None


def has_role(name: str, role: Role) -> bool:
    """Whether a column has one of the known names of a role."""
    return any(plain(name) in rank for rank in RANKS[role])


def find(table: FileTable, role: Role, given: str | None = None) -> str | None:
    """The column with this role: the one the user named, or the only one with a known name; None where there is none.

    Failing those, a column whose name ends in `id` (`tweet_id`, `postID`) holds the items.
    """
    if given is not None:
        if given not in table.names:
            raise column_error(table, f"there is no column {given!r}", f"Pass {FLAGS[role]} with one of these names")
        return given
    ranks = [[name for name in table.names if plain(name) in rank] for rank in RANKS[role]]
    if role == "item":
        ranks.append([name for name in table.names if ENDS_IN_ID.fullmatch(name) and not has_role(name, "annotator")])
    for matches in ranks:
        if len(matches) > 1:
            both = " and ".join(map(repr, matches[:3]))
            raise column_error(
                table, f"both {both} could be the {role} column", f"Pass {FLAGS[role]} with the right one, or --ignore"
            )
        if matches:
            return matches[0]
    return None


def leading_item(table: FileTable, given: str | None) -> str | None:
    """The item column of a matrix: the one the user named, or the first if its name is known, ends in `id` or is empty.

    Only the first, because the other columns are classes or annotators, which may have any name.
    """
    if given is not None:
        return find(table, "item", given)
    first = table.names[0]
    known = not first.strip() or first == "Unnamed: 0" or has_role(first, "item") or ENDS_IN_ID.fullmatch(first)
    return first if known else None


def column_error(table: FileTable, what: str, hint: str) -> InputError:
    """An error that lists the columns of the table."""
    return InputError(f"{what} (the columns are: {listed(table.names)})", where=str(table.path), hint=hint)


def listed(names: tuple[str, ...] | list[str], most: int = 12) -> str:
    """Names for a message: all of them, or the first three and the last."""
    if len(names) <= most:
        return ", ".join(names)
    return ", ".join((*names[:3], "…", names[-1]))
