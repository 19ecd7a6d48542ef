//! Dirty limits and how each generation makes writers wait for them.
