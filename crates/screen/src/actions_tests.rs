//! Actions: what they ask, and what they refuse.
