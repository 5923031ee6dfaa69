"""A user's mistakes on the command line. May import: click."""

from __future__ import annotations

from typing import Any

import click


def or_complain(action: Any) -> Any:
    """Run ``action``; a user's mistake becomes one line on the terminal instead of a traceback."""
    try:
        return action()
    except (TypeError, ValueError, IndexError, OSError, ImportError) as error:
        raise click.ClickException(f"{type(error).__name__}: {error}") from error
