"""Which column holds what, by its name.

Case, spaces, underscores and hyphens do not matter: `Worker ID`, `workerId` and `worker_id` are one name.
"""

from __future__ import annotations

import re
from typing import Literal

from dissensus.errors import InputError
from dissensus.votes.tables import FileTable

Role = Literal["item", "annotator", "label", "gold"]

# Two ranks per role: a name of the second rank counts only where no column has a name of the first.
NAMES: dict[Role, tuple[str, str]] = {
    "item": (
        "item itemid task taskid instance instanceid example exampleid image imageid textid document documentid docid "
        "sample sampleid question questionid sentenceid pairid unitid filename",
        "id uid uuid index key",
    ),
    "annotator": (
        "annotator annotatorid annotatedby annotatorname worker workerid user userid username rater raterid coder "
        "coderid judge judgeid labeler labelerid labeller reviewer participant participantid completedby",
        "by who person",
    ),
    "label": (
        "label labels annotation vote answer choice rating response judgment judgement annotatorlabel",
        "class category value",
    ),
    "gold": ("gold goldlabel truth groundtruth truelabel correct target", "label class category y"),
}
RANKS = {role: tuple(set(rank.split()) for rank in ranks) for role, ranks in NAMES.items()}
PERSON = re.compile(
    "(annotator|worker|user|rater|coder|judge|label+er|participant|reviewer|ann)[0-9]+|(rater|annotator)[a-z]"
)


def plain(name: str) -> str:
    """A column name without case and punctuation."""
    return re.sub(r"[\W_]+", "", name.lower())


def looks_like_person(name: str) -> bool:
    """Whether a column is named as a numbered annotator: `annotator_1`, `rater B`."""
    return PERSON.fullmatch(plain(name)) is not None


def find(table: FileTable, role: Role, given: str | None = None) -> str | None:
    """The column with this role: the one the user named, or the only one with a known name; None where there is none."""
    if given is not None:
        if given not in table.names:
            raise column_error(table, f"there is no column {given!r}", f"Pass --{role} with one of these names")
        return given
    for rank in RANKS[role]:
        matches = [name for name in table.names if plain(name) in rank]
        if len(matches) > 1:
            both = " and ".join(map(repr, matches))
            raise column_error(table, f"both {both} could be the {role} column", f"Pass --{role} with the right one")
        if matches:
            return matches[0]
    return None


def leading_item(table: FileTable, given: str | None) -> str | None:
    """The item column of a matrix: the one the user named, or the first if it has a known name or none.

    Only the first, because the other columns are classes or annotators, which may have any name.
    """
    if given is not None:
        return find(table, "item", given)
    first = table.names[0]
    known = not first.strip() or first == "Unnamed: 0" or any(plain(first) in rank for rank in RANKS["item"])
    return first if known else None


def column_error(table: FileTable, what: str, hint: str) -> InputError:
    """An error that lists the columns of the table."""
    if len(table.names) == 1 and (separator := next((mark for mark in ";\t|" if mark in table.names[0]), None)):
        hint = f"Separate the columns by commas, or by tabs in a .tsv: here {separator!r} seems to separate them"
    return InputError(f"{what} (the columns are: {listed(table.names)})", where=str(table.path), hint=hint)


def listed(names: tuple[str, ...] | list[str], most: int = 12) -> str:
    """Names for a message: all of them, or the first three and the last."""
    if len(names) <= most:
        return ", ".join(names)
    return ", ".join((*names[:3], "…", names[-1]))
