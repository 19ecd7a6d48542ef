//! What submissions may say, how they are merged, and that the file says the same.

mod hostile;
mod merging;
