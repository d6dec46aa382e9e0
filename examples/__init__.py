"""A regular package: one of the tests' libraries installs a package `examples`, which else would win."""
