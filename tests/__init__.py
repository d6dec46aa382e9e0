"""A regular package: one of the libraries used here installs a package `tests`, which else would win."""
