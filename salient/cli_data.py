"""The commands ``salient data list | prepare | info | verify``. May import: datasets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
from tabulate import tabulate

from salient.cli_errors import or_complain

_PATH = click.Path(path_type=Path)
_ROOT = click.option(
    "--root", type=_PATH, help="Folder of data sets.  [default: $SALIENT_DATA, else data]"
)


@click.group()
def data() -> None:
    """Get data sets ready."""


@data.command("list")
@_ROOT
def list_known(root: Path | None) -> None:
    """Show the data sets with a name, and those prepared in the root."""
    from salient.datasets.catalogue import CATALOGUE
    from salient.datasets.registry import data_root

    folder = data_root(root)
    rows: list[list[Any]] = [
        [
            entry.name,
            entry.num_nodes,
            entry.num_edges,
            entry.num_features,
            entry.num_classes,
            entry.download,
            entry.state(folder),
            entry.licence,
            entry.citation,
        ]
        for entry in CATALOGUE
    ]
    rows += or_complain(lambda: _own_rows(folder, {entry.name for entry in CATALOGUE}))
    headers = ["name", "nodes", "edges", "features", "classes", "download", "prepared", "licence"]
    click.echo(tabulate(rows, [*headers, "source"], intfmt=","))


def _own_rows(root: Path, known: set[str]) -> list[list[Any]]:
    """Return rows for the stores in a folder that have no name in the catalogue."""
    from salient.datasets.store_manifest import MANIFEST, read_manifest

    rows: list[list[Any]] = []
    for path in sorted(root.glob(f"*/{MANIFEST}")):
        name = path.parent.name
        if name in known or name.startswith("."):
            continue
        try:
            facts = read_manifest(path.parent).description
        except ValueError:
            rows.append([name, *[None] * 5, "damaged: see `data verify`", None, None])
            continue
        sizes = [facts[f"num_{part}"] for part in ("nodes", "edges", "features", "classes")]
        rows.append([name, *sizes, "none", "prepared", facts.get("licence"), facts.get("source")])
    return rows


@data.command()
@click.argument("source")
@_ROOT
@click.option(
    "--out", type=_PATH, help="Folder to make.  [default: ROOT/NAME; none for Planetoid's sets]"
)
@click.option("--name", help="Name of the data set.  [default: from the path]")
@click.option("--symmetrise", is_flag=True, help="Add reversed edges, drop duplicates.")
@click.option("--drop-duplicates", is_flag=True, help="Keep one of parallel edges.")
@click.option("--features", type=_PATH, help="X.npy, for an edge list.")
@click.option("--labels", type=_PATH, help="Y.npy, for an edge list.")
@click.option("--splits", type=_PATH, help="Folder or .npz of train, valid, test.")
@click.option("--split", default=0, help="Which split, where the file has several.")
@click.option("--seed", default=0, help="Of whatever is random.")
@click.option("--allow-large", is_flag=True, help="Permit a download of more than 5 GB.")
@click.option(
    "--reorder",
    type=click.Choice(["degree", "rcm", "community"]),
    help="Store the nodes in another order; your own ids stay in original_ids.npy.",
)
def prepare(
    source: str,
    root: Path | None,
    out: Path | None,
    name: str | None,
    seed: int,
    reorder: str | None,
    allow_large: bool,
    **options: Any,
) -> None:
    """Fetch or make the data set SOURCE and describe it.

    SOURCE is a name, see `salient data list`, or the path of your own files: an .npz file, a PyG
    Data object (.pt), a folder of NumPy arrays, an edge list (.csv, .csv.gz, .parquet). A folder of
    memory-mapped arrays is made, which `--dataset` and load_dataset() open at once by its name or
    path; Planetoid's small sets are only fetched, unless --out says where to.
    """
    dataset = or_complain(
        lambda: _prepare(source, root, out, name, seed, reorder, allow_large, options)
    )
    click.echo(json.dumps(dataset.description, indent=2, sort_keys=True))


def _prepare(
    source: str,
    root: Path | None,
    out: Path | None,
    name: str | None,
    seed: int,
    reorder: str | None,
    allow_large: bool,
    options: dict[str, Any],
) -> Any:
    from salient.datasets import load_dataset
    from salient.datasets.catalogue import CATALOGUE
    from salient.datasets.own import OwnOptions, is_own, own_builder, own_name
    from salient.datasets.registry import data_root, is_stored_by_name, store_builder
    from salient.datasets.reorder import reordered
    from salient.datasets.store import prepare as prepare_store
    from salient.datasets.store_manifest import MANIFEST

    if is_own(source):
        title = name or own_name(source)
        if out is None and title in {entry.name for entry in CATALOGUE}:
            raise ValueError(f"--name: {title!r} is the name of a known data set; choose another")
        folder = out if out is not None else data_root(root) / title
        build = own_builder(Path(source), OwnOptions(seed=seed, **options), title)
    else:
        given = [f"--{key.replace('_', '-')}" for key, value in options.items() if value]
        if given:
            raise ValueError(f"{', '.join(given)}: for your own files only, not for {source!r}")
        if name:
            raise ValueError(f"--name: for your own files only, not for {source!r}")
        if out is None and not is_stored_by_name(source):
            if reorder:
                raise ValueError("--reorder needs --out, since nothing is stored without")
            return load_dataset(source, root, seed=seed)
        folder = out if out is not None else data_root(root) / source
        build = store_builder(source, root, seed=seed, allow_large=allow_large)

    if (folder / MANIFEST).is_file():
        click.echo(f"{folder} is there already; to make it anew, delete it first", err=True)
    return prepare_store(folder, build if reorder is None else reordered(build, reorder))


@data.command()
@click.argument("folder", type=_PATH)
@click.option(
    "--picture", type=_PATH, help="Draw the distribution of in-degrees into this file (.png)."
)
def info(folder: Path, picture: Path | None) -> None:
    """Show what the prepared data set in FOLDER is."""
    from salient.datasets.degrees import draw_in_degrees
    from salient.datasets.store import open_store
    from salient.datasets.store_manifest import MANIFEST

    dataset = or_complain(lambda: open_store(folder))
    click.echo((folder / MANIFEST).read_text(encoding="utf-8"), nl=False)
    if picture is not None:
        or_complain(lambda: draw_in_degrees(dataset.graph, dataset.name, picture))


@data.command()
@click.argument("folder", type=_PATH)
def verify(folder: Path) -> None:
    """Compare the prepared data set in FOLDER with its checksums, and check all values."""
    from salient.datasets.store import verify_store

    dataset = or_complain(lambda: verify_store(folder))
    click.echo(f"{folder}: all {dataset.name} files are as they were prepared")
