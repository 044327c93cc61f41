"""Delimited text: CSV, TSV, and text separated by semicolons or bars.

Arrow parses; what Arrow would accept and lose rows by (an open quote) is found here first.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice

import numpy as np
import pyarrow as pa
import pyarrow.csv

from dissensus.errors import InputError
from dissensus.votes.files import PathLike, check_utf8
from dissensus.votes.votes import row_names

BLOCK = 1 << 24  # bytes; no row may be longer
MANY_BYTES = 1 << 20  # below that, threads cost more than they save
HEAD = 1 << 16  # bytes that are looked at to find the separator and the kinds of cells
HEAD_ROWS = 100
DELIMITERS = {"csv": ",", "tsv": "\t"}
OTHERS = ",;\t|"
CALLED = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
BOM = b"\xef\xbb\xbf"
NAMED_SEPARATOR = re.compile(rb"(?:\xef\xbb\xbf)?sep=([,;\t|])\r?\n", re.IGNORECASE)


class DelimitedText:
    """Rows of delimited text. `usual` is the separator that the extension promises; the content decides."""

    def __init__(self, path: PathLike, content: bytes, usual: str) -> None:
        self.path, self._content = path, content
        if not content.isascii():
            check_utf8(content, path)
        named = NAMED_SEPARATOR.match(content)  # as Excel writes it
        if named:
            self._content = content = b"\n" + content[named.end() :]  # the line stays, for the numbers in messages
        self.delimiter = named[1].decode() if named else find_delimiter(content, usual)
        self._check_quotes()
        first = next(_records(content, self.delimiter), None)
        if first is None:
            raise InputError("the first line is too long for a header", where=f"{path}:1", hint="Check the quotes in it")
        self._line, header = first
        self.headless = _is_data(header, f"{path}:{self._line}")
        self._width, self._header_rows = len(header), 0 if self.headless else self._count_header_rows()
        self._places = tuple(place for place in range(len(header)) if not self._is_hollow(place, header))
        self.names = tuple(str(place) if self.headless else header[place] for place in self._places)
        self.notes = tuple(self._notes(header, usual))

    def _count_header_rows(self) -> int:
        """1; or 3 as Qualtrics writes them: names, questions, and `{"ImportId": …}`."""
        first = [row for _, row in islice(_records(self._content[:HEAD], self.delimiter), 3)]
        return 3 if len(first) == 3 and any(cell.startswith('{"ImportId"') for cell in first[2]) else 1

    def _is_hollow(self, place: int, header: Sequence[str]) -> bool:
        """Whether a column has neither a name nor a cell, as marks at the ends of the rows make them."""
        if place == 0 or header[place].strip() or self.headless:
            return False
        (column,) = self._parse(self._content, [place]).columns
        return set(column.unique().to_pylist()) <= {""}

    def _notes(self, header: Sequence[str], usual: str) -> Iterator[str]:
        if self.delimiter != usual:
            yield f"the columns are separated by {CALLED[self.delimiter]}"
        if self._header_rows == 3:
            yield "the second and third row are headers, too, as Qualtrics writes them: left out"
        if self.headless:
            yield "there is no header: the first line is data, and the columns are called by their numbers"
        elif all(_is_number(name) for name in header):
            yield f"the first line ({', '.join(header[:4])}{', …' if len(header) > 4 else ''}) was taken for the header"

    def read(self, chosen: list[str]) -> pa.Table:
        """These columns, every cell as text. Arrow never sees the header as one: it is the first row, and dropped."""
        places = dict(zip(self.names, self._places, strict=True))
        return self._parse(self._content, [places[name] for name in chosen]).slice(self._header_rows)

    def head(self) -> pa.Table:
        """All columns of the first rows."""
        cut = self._content[:HEAD]
        if len(cut) < len(self._content):
            rows = list(islice(_records(cut, self.delimiter), HEAD_ROWS))[:-1]  # the last one may be cut off
        else:
            rows = list(islice(_records(cut, self.delimiter), HEAD_ROWS))
        cells = [row for _, row in rows[self._header_rows :] if len(row) == self._width]
        by_place = list(zip(*cells, strict=True))
        columns = [pa.array(by_place[place], pa.string()) for place in self._places] if cells else []
        return pa.Table.from_arrays(columns, names=[str(index) for index in range(len(columns))])

    def _parse(self, content: bytes, chosen: list[int]) -> pa.Table:
        numbered = row_names(self._width)
        try:
            return pa.csv.read_csv(
                pa.BufferReader(content),
                read_options=pa.csv.ReadOptions(
                    column_names=numbered, block_size=BLOCK, use_threads=len(content) > MANY_BYTES
                ),
                parse_options=pa.csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=b'"' in content),
                convert_options=pa.csv.ConvertOptions(
                    include_columns=[numbered[place] for place in chosen],
                    column_types=dict.fromkeys(numbered, pa.string()),
                    strings_can_be_null=False,
                ),
            )
        except pa.ArrowException as error:
            raise self._ragged(error) from None

    def line(self, row: int) -> int | None:
        """The line that a row begins on."""
        starts = (start for start, _ in _records(self._content, self.delimiter))
        return next(islice(starts, row + self._header_rows, None), None)

    def lost_rows(self, cell: str, column: str) -> bool:
        """Whether a cell over several lines is cut as rows are: then a quote was opened before it and never closed."""
        return swallowed_rows(cell, self._places[self.names.index(column)], self._width, self.delimiter)

    def _check_quotes(self) -> None:
        """Refuse a quote that is not closed where its cell ends: rows would disappear in it."""
        if quotes_are_balanced(self._content, self.delimiter):
            return
        reader = csv.reader(_as_lines(self._content), delimiter=self.delimiter, strict=True)
        start = 1
        try:
            for _ in reader:
                start = reader.line_num + 1
        except csv.Error as problem:
            what = "a cell is too long" if "limit" in str(problem) else "a double quote is opened and not closed"
            hint = 'Close the quote; inside a quoted cell, write a quote twice ("")'
            if b'" "' in self._content.split(b"\n", 1)[0]:
                hint = "The cells seem to be separated by blanks: separate them by commas or tabs (in R: write.csv)"
            raise InputError(f"{what} in the row that begins here", where=f"{self.path}:{start}", hint=hint) from None

    def _ragged(self, error: Exception) -> InputError:
        for line, record in _records(self._content, self.delimiter):
            if len(record) != self._width:
                hint = "Correct the row; put a cell that holds the separator or a line end in double quotes"
                if line <= self._line + 2 and len(record) > self._width:
                    hint = "If the first line is a title or a comment, delete it; otherwise correct the row"
                return InputError(
                    f"{len(record)} columns where the first line has {self._width}",
                    where=f"{self.path}:{line}",
                    hint=hint,
                )
        return InputError(f"the table cannot be parsed ({error})", where=str(self.path), hint="Write it again")


def find_delimiter(content: bytes, usual: str) -> str:
    """What separates the cells: the usual mark, unless it leaves one column where another one gives the same few.

    >>> find_delimiter(b"item;label\\na;cat, tabby\\n", ",")
    ';'
    """
    cut = content[:HEAD]
    whole = max(1, cut.count(b"\n")) if len(cut) < len(content) else 50  # the last line may be cut off

    def width(delimiter: str) -> int:
        """Columns of the first rows if they agree, else 0."""
        widths = {len(record) for _, record in islice(_records(cut, delimiter), min(whole, 50))}
        return widths.pop() if len(widths) == 1 else 0

    if (usual_width := width(usual)) > 1:
        return usual
    others = {mark: width(mark) for mark in OTHERS if mark != usual}
    best = max(others, key=lambda mark: others[mark])
    return best if others[best] > max(1, usual_width) else usual


def quotes_are_balanced(content: bytes, delimiter: str) -> bool:
    """Whether every quote opens at the start of a cell and closes at its end, or is doubled inside one.

    A quick test of all quotes at once; quotes inside unquoted cells, which are just characters, fail it.
    """
    if b'"' not in content:
        return True
    text = np.frombuffer(content, np.uint8)
    quotes = np.flatnonzero(text == ord('"'))
    if len(quotes) % 2:
        return False
    opening, closing = quotes[::2], quotes[1::2]
    edges = np.zeros(256, bool)
    edges[[ord(delimiter), 10, 13]] = True
    start = len(BOM) if content.startswith(BOM) else 0
    opens = (opening == start) | edges[text[np.maximum(opening - 1, 0)]]
    opens[1:] |= opening[1:] == closing[:-1] + 1  # the second of a doubled quote
    closes = (closing == len(text) - 1) | edges[text[np.minimum(closing + 1, len(text) - 1)]]
    closes[:-1] |= opening[1:] == closing[:-1] + 1
    return bool(opens.all() and closes.all())


def swallowed_rows(cell: str, column: int, width: int, delimiter: str) -> bool:
    """Whether a cell over several lines has a separator wherever rows of `width` columns would have one.

    >>> swallowed_rows("x\\nb,w,y", 2, 3, ","), swallowed_rows("x\\ny", 2, 3, ",")
    (True, False)
    """
    lines = cell.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if len(lines) < 2 or width < 2:
        return False
    needed = [width - 1 - column, *[width - 1] * (len(lines) - 2), column]
    return all(line.count(delimiter) == times for line, times in zip(lines, needed, strict=True))


def _as_lines(content: bytes) -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(content), encoding="utf-8-sig", errors="replace", newline="")


def _records(content: bytes, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Each record with the line it starts on; blank lines are skipped. Slow, but exact where quoted cells hold line ends.

    Ends early at a cell that is too long for Python's parser: callers then know less, but nothing wrong.
    """
    reader = csv.reader(_as_lines(content), delimiter=delimiter)
    start = 1
    with suppress(csv.Error):
        for record in reader:
            if record:
                yield start, record
            start = reader.line_num + 1


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _is_data(first: list[str], where: str) -> bool:
    """Whether the first line is already data: numbers only, and not the names 0…K-1 or 1…K of at least three columns.

    Eleven names or more may come in another order: as text, 10 sorts before 2.
    """
    numbers = [float(cell) for cell in first if _is_number(cell)]
    fractions = any(not number.is_integer() and np.isfinite(number) for number in numbers)
    if len(numbers) < len(first) and not fractions:
        return False
    for names in (row_names(len(first)), row_names(len(first) + 1)[1:]):
        if len(first) > 2 and (tuple(first) == names or (len(first) > 10 and set(first) == set(names))):
            return False
    if len(numbers) < len(first) or (len(set(numbers)) == len(numbers) and not fractions):
        raise InputError(
            f"cannot tell whether the first line ({', '.join(first[:20])}) is a header or data",
            where=where,
            hint="Add a header line with the names of the columns",
        )
    return True
