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
        "docid sample sampleid question questionid sentenceid pairid unitid hitid filename",
        "id uid uuid index key",
    ),
    "annotator": (
        "annotator annotators annotatorid annotatedby annotatorname worker workers workerid user users userid username "
        "rater raters raterid coder coderid judge judgeid labeler labelerid labeller reviewer participant participantid "
        "completedby respondent respondentid responseid prolificid prolificpid performer turker turkerid voter",
        "by who person email emailaddress",
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
VOTE_COLUMN = re.compile("(label|annotation|vote|answer|rating|score|response|judge?ment|choice|opinion)[0-9]+")
OF_ANNOTATORS = re.compile(".*(annotator|worker|rater|coder|label+er|turker)(id|ids|name)?")
HOLDS_VOTES = re.compile(".*(label|annotation|vote|answer|rating|response|judge?ment|choice|opinion)(s|count|counts)?")
AGGREGATE = re.compile(
    "(label|crowd)?(gold|golden|true|correct|hard|final|majority|consensus|agg|aggregated?|adjudicated|resolved|mean|avg|average"
    "|median|mode|normali[sz]ed|mostcommon|mostfrequent|predicted|pred)"
    "(label|class|vote|answer|annotation|rating|score|value|decision)?"
    "|goldstandard|(ground)?truth(label|class)?|gt(label|class)?|ytrue|ypred|target|reference(label)?|adjudication|(model)?prediction"
    "|std|sd|stdev|variance|entropy|agreement|disagreement|confidence|kappa"
)
PATHS = {"imagepath", "imagename", "imagefile", "imageurl", "filepath", "file", "path", "url"}
TEXTS = {"text", "sentence", "tweet", "comment", "post", "utterance", "content"}
TOTALS = {"total", "totals", "sum", "all", "nvotes", "numvotes", "votes", "count", "counts", "n"}


def plain(name: str) -> str:
    """A column name without case and punctuation."""
    return re.sub(r"[\W_]+", "", name.lower())


def looks_like_person(name: str) -> bool:
    """Whether a column is named as a numbered annotator: `annotator_1`, `rater B`."""
    return PERSON.fullmatch(plain(name)) is not None


def looks_like_votes(name: str) -> bool:
    """Whether a column is named as one of several votes on an item: `label1`, `rating_2`."""
    return VOTE_COLUMN.fullmatch(plain(name)) is not None


def holds_votes(name: str) -> bool:
    """Whether the last word of a name says that it holds votes: `annotator_labels`, `crowd_votes`."""
    return HOLDS_VOTES.fullmatch(plain(name)) is not None


def is_aggregate(name: str) -> bool:
    """Whether a column is named as what is made from the votes on an item, or is better than they: `majority`, `gold`."""
    return AGGREGATE.fullmatch(plain(name)) is not None


def has_role(name: str, role: Role) -> bool:
    """Whether a column has one of the known names of a role."""
    return any(plain(name) in rank for rank in RANKS[role])


def find(table: FileTable, role: Role, given: str | None = None, *, texts: bool = True) -> str | None:
    """The column with this role: the one the user named, or the only one with a known name; None where there is none.

    Failing those, a column whose name ends in `id` (`tweet_id`, `postID`), a path or, with `texts`, a text holds the
    items, and one whose name ends in `worker_id`, `annotator` … (`amt_worker_ids`) the annotators.
    """
    if given is not None:
        if given not in table.names:
            raise column_error(table, f"there is no column {given!r}", f"Pass {FLAGS[role]} with one of these names")
        return given
    ranks = [[name for name in table.names if plain(name) in rank] for rank in RANKS[role]]
    if role == "item":
        ranks.append([name for name in table.names if names_items(name)])
        ranks += [
            [name for name in table.names if plain(name) in rank] for rank in ((PATHS, TEXTS) if texts else (PATHS,))
        ]
    if role == "annotator":
        ranks.append([name for name in table.names if names_people(name)])
    for matches in ranks:
        if len(matches) > 1:
            both = " and ".join(map(repr, matches[:3]))
            raise column_error(
                table, f"both {both} could be the {role} column", f"Pass {FLAGS[role]} with the right one, or --ignore"
            )
        if matches:
            return matches[0]
    return None


def names_people(name: str) -> bool:
    """Whether a name is that of a column of annotators."""
    return has_role(name, "annotator") or OF_ANNOTATORS.fullmatch(plain(name)) is not None


def names_items(name: str) -> bool:
    """Whether a name ends in `id`, and not as that of a person does."""
    return ENDS_IN_ID.fullmatch(name) is not None and not names_people(name)


def leading_item(table: FileTable, given: str | None) -> str | None:
    """The item column of a matrix: the one the user named, or the first if its name is known, ends in `id` or is empty.

    Only the first, because the other columns are classes or annotators, which may have any name.
    """
    if given is not None:
        return find(table, "item", given)
    first = table.names[0]
    known = (
        not first.strip()
        or first in ("Unnamed: 0", "__index_level_0__")
        or has_role(first, "item")
        or ENDS_IN_ID.fullmatch(first)
    )
    return first if known else None


def column_error(table: FileTable, what: str, hint: str) -> InputError:
    """An error that lists the columns of the table."""
    return InputError(f"{what} (the columns are: {listed(table.names)})", where=str(table.path), hint=hint)


def listed(names: tuple[str, ...] | list[str], most: int = 12) -> str:
    """Names for a message: all of them, or the first three and the last."""
    if len(names) <= most:
        return ", ".join(names)
    return ", ".join((*names[:3], "…", names[-1]))
