"""Signs of life between ranks, so that none waits for one that is no more. May import: torch.

A process that ends closes its connections, and whoever waits for it fails at once. A host that
loses its power or network, or a process that is frozen, leaves the others waiting: this is for
them. How long a step or an evaluation takes does not matter, since a thread of its own sends the
signs.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

_ROUNDS_PER_PATIENCE = 5
# The store may be gone because the run is over, which this rank is about to find out.
_STORE_GRACE_SECONDS = 3.0


def end_process(reason: str) -> None:
    """Say why and end this process, whatever its other threads wait for."""
    from torch.distributed.elastic.multiprocessing.errors import get_error_handler

    print(reason, file=sys.stderr, flush=True)
    try:
        raise RuntimeError(reason)  # torchrun's summary shows a traceback
    except RuntimeError as error:
        get_error_handler().record_exception(error)
    os._exit(1)


class Heartbeat:
    """Sends signs of life through a store, and looks for those of the other ranks.

    Parameters
    ----------
    store : torch.distributed.Store
        Of all ranks.
    rank, size : int
    patience : float
        Seconds without a sign after which a rank is lost.
    on_lost : callable
        Called once, in the thread of the heartbeat, with the reason.
    """

    def __init__(
        self,
        store: Any,
        rank: int,
        size: int,
        patience: float,
        on_lost: Callable[[str], None] = end_process,
    ) -> None:
        self._store = store
        self._rank = rank
        self._keys = [f"salient/heartbeat/{other}" for other in range(size)]
        self._patience = patience
        self._on_lost = on_lost
        self._over = threading.Event()
        self._beats = 0
        self._thread = threading.Thread(target=self._watch, name="heartbeat", daemon=True)
        self._beat()

    def start(self) -> None:
        """Begin to watch; every rank must have been constructed by now."""
        self._thread.start()

    def stop(self) -> None:
        """Send no more signs; the others must have stopped watching, or be about to."""
        self._over.set()
        self._thread.join()

    def _beat(self) -> None:
        self._beats += 1
        self._store.set(self._keys[self._rank], f"{self._beats} {socket.gethostname()}")

    def _watch(self) -> None:
        signs: list[bytes] = [b""] * len(self._keys)
        heard = [time.monotonic()] * len(self._keys)
        while not self._over.wait(self._patience / _ROUNDS_PER_PATIENCE):
            try:
                self._beat()
                found = self._store.multi_get(self._keys)
            except RuntimeError as error:
                if not self._over.wait(_STORE_GRACE_SECONDS):
                    self._lose(f"lost the launcher of rank 0 ({str(error).splitlines()[0]})")
                return
            now = time.monotonic()
            for other, sign in enumerate(found):
                if sign != signs[other]:
                    signs[other], heard[other] = sign, now
                elif now - heard[other] > self._patience:
                    host = bytes(sign).decode().split(" ", 1)[1]
                    self._lose(
                        f"no sign of life from rank {other} on {host} for {self._patience:g} s"
                    )
                    return

    def _lose(self, what: str) -> None:
        where = f"rank {self._rank} of {len(self._keys)} on {socket.gethostname()}"
        self._on_lost(
            f"{where}: {what}; its host or network is down, or it is frozen. "
            "`--resume` continues after the last finished epoch"
        )
