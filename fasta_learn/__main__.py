"""The command line, as ``python -m fasta_learn``."""

import sys

from fasta_learn._cli import main

if __name__ == "__main__":
    sys.exit(main())
