"""``python -m salient.train`` is ``salient train``, for launchers such as torchrun.

May import: cli_train, distributed.
"""

from __future__ import annotations

import sys

import click

from salient.cli_train import train
from salient.distributed import is_launched


def run() -> None:
    """Train; under torchrun, leave the reason of a failure where its summary finds it."""
    if not is_launched():
        train()
        return
    from torch.distributed.elastic.multiprocessing.errors import record

    try:
        record(lambda: train.main(standalone_mode=False))()
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)


if __name__ == "__main__":
    run()
