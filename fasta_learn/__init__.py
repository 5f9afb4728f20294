"""Find a fast launch config of a GPU or NPU kernel after measuring few of them."""

__version__ = "0.1.0.dev0"
