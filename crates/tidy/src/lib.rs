//! Checks of the repository itself, run as tests: the forbidden edges between crates, the shape of
//! source files, and what must not be written down. The checks are in `tests/`.
