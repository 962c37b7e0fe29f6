"""`python -m allaboard` is `aboard`."""

from allaboard.cli import main

main()
