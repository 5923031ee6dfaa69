"""``python -m salient.train`` is ``salient train``, for launchers that start modules."""

from salient.cli import train

if __name__ == "__main__":
    train()
