"""Learning rate by epoch, and when to stop early. May import: config.

Both are functions of the configuration and of the validation accuracies so far, so there is no
state that a checkpoint could miss.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from salient.config import TrainConfig

PLATEAU_EPOCHS = 5
PLATEAU_FACTOR = 0.5


def learning_rate(config: TrainConfig, epoch: int, valid_accuracy: Sequence[float]) -> float:
    """Return the learning rate of an epoch.

    Parameters
    ----------
    config : TrainConfig
        ``schedule`` is ``"none"``: always ``lr``; ``"cosine"``: from ``lr`` in the first epoch
        along half a cosine that would reach 0 after the last; or ``"plateau"``: multiplied by
        ``PLATEAU_FACTOR`` whenever the validation accuracy has not risen above its best for
        ``PLATEAU_EPOCHS`` epochs.
    epoch : int
        From 0.
    valid_accuracy : sequence of float
        After each of the epochs before.
    """
    if config.schedule == "cosine":
        return config.lr * (1 + math.cos(math.pi * epoch / config.epochs)) / 2
    if config.schedule == "plateau":
        return config.lr * PLATEAU_FACTOR ** _count_plateaus(valid_accuracy[:epoch])
    return config.lr


def _count_plateaus(valid_accuracy: Sequence[float]) -> int:
    best, waited, plateaus = -math.inf, 0, 0
    for accuracy in valid_accuracy:
        if accuracy > best:
            best, waited = accuracy, 0
            continue
        waited += 1
        if waited == PLATEAU_EPOCHS:
            plateaus, waited = plateaus + 1, 0
    return plateaus


def should_stop(config: TrainConfig, valid_accuracy: Sequence[float]) -> bool:
    """Whether the last ``patience`` epochs brought no better validation accuracy.

    Never if ``patience`` is 0.
    """
    if config.patience == 0 or len(valid_accuracy) <= config.patience:
        return False
    return max(valid_accuracy[-config.patience :]) <= max(valid_accuracy[: -config.patience])
