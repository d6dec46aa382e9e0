"""Tables: rows of plain text, laid out for the page there is.

Guarantees  where no terminal watches, a row is a line, and every cell of it is whole, however long;
            on a terminal a word is not broken while folding at spaces, or leaving columns out, makes room,
            and a column that is to be copied (`keep`) is never folded.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from redrive.cli.output import console, shown

_GAP = 2
# A longer word, such as a path or a URL in an error, may be broken.
_LONGEST_WORD = 24


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    numbers: Sequence[str] = (),
    keep: Sequence[str] = (),
    shed: Sequence[str] = (),
) -> None:
    """Print a table on stdout; see `table`."""
    page = console()
    if page.is_terminal:
        page.print(table(columns, rows, width=page.width, numbers=numbers, keep=keep, shed=shed), crop=False)
        return
    with page.capture() as captured:
        page.print(table(columns, rows, numbers=numbers))
    sys.stdout.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))
    sys.stdout.flush()


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    width: int | None = None,
    numbers: Sequence[str] = (),
    keep: Sequence[str] = (),
    shed: Sequence[str] = (),
) -> Table:
    """A table `width` cells wide at most, None: as wide as it gets.

    `numbers` are the columns to align right, `keep` those that are never folded, `shed` those that are left
    out on a narrow page, the first of them first. A column without a name and a value is left out too.
    """
    filled = [[_cell(each) for each in row] for row in rows]
    laid = [
        _Column(name, [row[place] for row in filled], name in numbers, name in keep)
        for place, name in enumerate(columns)
    ]
    laid = [each for each in laid if each.width]
    if width is not None:
        _fit(laid, width, shed)
    made = Table(box=None, pad_edge=False, header_style="bold", padding=(0, _GAP, 0, 0))
    made.width = sum(each.width for each in laid) + _GAP * (len(laid) - 1)
    for each in laid:
        made.add_column(
            each.name,
            justify="right" if each.number else "left",
            overflow="fold",
            no_wrap=each.keep,
            width=each.width,
        )
    for place in range(len(filled)):
        made.add_row(*(each.cells[place] for each in laid))
    return made


class _Column:
    """`width` is what its widest cell takes, until `_fit` makes it smaller, down to `least`."""

    def __init__(self, name: str, cells: Sequence[Text], number: bool, keep: bool) -> None:
        self.name = name
        self.cells = cells
        self.number = number
        self.keep = keep
        texts = [name, *(each.plain for each in cells)]
        self.width = max(map(cell_len, texts))
        words = [cell_len(word) for text in texts for word in text.split()]
        self.least = self.width if keep else min(max(words, default=0), _LONGEST_WORD)


def _fit(columns: list[_Column], width: int, shed: Sequence[str]) -> None:
    """Leave columns out until the rest can be folded to the width, then fold the widest."""
    for name in shed:
        if _needed(each.least for each in columns) <= width:
            break
        columns[:] = [each for each in columns if each.name != name]
    while (excess := _needed(each.width for each in columns) - width) > 0:
        foldable = sorted(
            (each for each in columns if each.width > each.least), key=lambda each: each.width, reverse=True
        )
        if not foldable:
            return
        widest = foldable[0]
        second = foldable[1].width if len(foldable) > 1 else 0
        widest.width = max(widest.least, min(second, widest.width - 1), widest.width - excess)


def _needed(widths: Iterable[int]) -> int:
    found = list(widths)
    return sum(found) + _GAP * (len(found) - 1)


def _cell(value: object) -> Text:
    if isinstance(value, Text):
        return value
    # A line end would make two rows of one.
    return Text(shown(value).replace("\n", "\\n").replace("\t", "\\t"))
