"""The command line: ``salient doctor | data | train``. May import every stage."""

from __future__ import annotations

import logging
import sys

import click

from salient.cli_data import data
from salient.cli_train import train
from salient.cli_types import IntList

__all__ = ["IntList", "main"]


@click.group()
@click.version_option(package_name="salient-bench")
def main() -> None:
    """Fast neighbour sampling and training of graph neural networks."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)


main.add_command(data)
main.add_command(train)


@main.command()
def doctor() -> None:
    """Say what works on this machine and what to do about what does not."""
    from salient.doctor import examine

    broken = False
    for finding in examine():
        click.echo(f"{finding.status:8}{finding.name:22}{finding.detail}")
        if finding.remedy:
            click.echo(f"{'':30}-> {finding.remedy}")
        broken |= finding.status == "broken"
    sys.exit(1 if broken else 0)
