"""Command line: ``python -m analysis RESULTS [--out DIR]``.

May import: ``analysis.report``; click.
"""

from __future__ import annotations

from pathlib import Path

import click

from analysis.report import write_report


@click.command()
@click.argument("results", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for the tables and pictures.  [default: RESULTS/report]",
)
def main(results: Path, out: Path | None) -> None:
    """Turn the result records in RESULTS into tables and pictures."""
    try:
        report = write_report(results, out or results / "report")
    except (OSError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    click.echo(report.markdown)
    for path in report.paths:
        click.echo(f"written: {path}")
    for experiment, count in sorted(report.other_experiments.items()):
        click.echo(f"left alone: {count} record(s) of experiment {experiment}")


if __name__ == "__main__":
    main(prog_name="python -m analysis")
