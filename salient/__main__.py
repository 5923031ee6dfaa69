"""``python -m salient`` is the command line."""

from salient.cli import main

main()
