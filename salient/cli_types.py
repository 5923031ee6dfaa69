"""Kinds of values on the command line. May import: click."""

from __future__ import annotations

from typing import Any

import click


class IntList(click.ParamType):  # type: ignore[type-arg]  # generic in newer click only
    """Whole numbers separated by commas."""

    name = "k,k,..."

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[int, ...]:
        """Return the numbers as a tuple."""
        if isinstance(value, tuple):
            return value
        try:
            return tuple(int(part) for part in str(value).split(","))
        except ValueError:
            self.fail(f"{value!r} is not a list of whole numbers such as 15,10,5", param, ctx)
