"""``python -m baselines``: which systems work here, each tried on a graph of three nodes."""

from __future__ import annotations

import json

import click

from baselines import availability


@click.command()
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@click.option("--require", is_flag=True, help="Exit with 1 unless all work.")
def main(as_json: bool, require: bool) -> None:
    """Say which systems work on this machine."""
    answers = availability()
    if as_json:
        click.echo(json.dumps({name: vars(answer) for name, answer in answers.items()}))
    else:
        for name, answer in answers.items():
            click.echo(
                f"{'ok' if answer.ok else 'n/a':5}{name:14}{answer.version or answer.reason}"
            )
            if answer.remedy:
                click.echo(f"{'':19}-> {answer.remedy}")
    if require and not all(answer.ok for answer in answers.values()):
        raise SystemExit(1)


main()
