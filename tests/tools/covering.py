"""Covering arrays: rows of one level of each factor, so few that they can all be run, in which any two levels of two factors that may stand together do so at least once.

Greedy, as AETG's authors describe it (Cohen, Dalal, Fredman, Patton 1997), without chance: a row begins with the first pair that is missing, and each
factor that it lacks takes the level that adds most missing pairs, of equals the first. So levels that cost little come first."""

from __future__ import annotations

import itertools
from typing import Any, Callable, Mapping, Sequence

Row = dict[str, Any]


def covering(factors: Mapping[str, Sequence], apart: Callable[[Row], bool] = lambda row: False) -> list[Row]:
    """Rows with every pair of levels. apart(row): must these levels, of some of the factors, not stand in one row? The first ones may, with any."""
    missing = {
        ((f, x), (g, y)): None for f, g in itertools.combinations(factors, 2) for x, y in itertools.product(factors[f], factors[g]) if not apart({f: x, g: y})
    }
    rows = []
    while missing:
        (f, x), (g, y) = next(iter(missing))
        row = {f: x, g: y}
        for name in factors:
            if name not in row:
                row[name] = _best(factors, missing, row, name, apart)
        made = [((f, row[f]), (g, row[g])) for f, g in itertools.combinations(factors, 2)]
        for pair in made:
            missing.pop(pair, None)
        missing.pop(((f, x), (g, y)), None)
        rows.append({name: row[name] for name in factors})
    return rows


def _best(factors, missing, row, name, apart):
    order = {factor: n for n, factor in enumerate(factors)}

    def gain(level):
        ends = ((((other, own), (name, level)) if order[other] < order[name] else ((name, level), (other, own))) for other, own in row.items())
        return sum(pair in missing for pair in ends)

    allowed = [level for level in factors[name] if not apart({**row, name: level})]
    return max(allowed, key=gain)  # of equals the first
