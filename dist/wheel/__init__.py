"""RDMA without the hardware: the libraries of the command ``weft``, which this package installs as a script."""

import pathlib

__version__ = "@VERSION@"

#: Directory of libibverbs.so.1, librdmacm.so.1 and libibumad.so.3.
library_directory = pathlib.Path(__file__).parent
