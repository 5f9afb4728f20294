"""Reports on searches: the facts in a file, and a web page that shows them."""

from fasta_learn.report._facts import read_facts
from fasta_learn.report._page import to_html

__all__ = ["read_facts", "to_html"]
