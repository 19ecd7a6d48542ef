//! Requests of a job that are kept one by one, for logs.

/// A request that has ended, or several of one millisecond and direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptRequest {
    /// Nanoseconds from the job's begin to its end.
    pub end_ns: u64,
    /// How many.
    pub requests: u64,
    /// Whether it wrote.
    pub is_write: bool,
    /// Bytes, together.
    pub bytes: u64,
    /// From its begin to its submission, from there to its end, and both: nanoseconds, together.
    pub latencies_ns: [u64; 3],
}

impl KeptRequest {
    /// Whether both are of one millisecond and direction.
    #[must_use]
    pub fn is_beside(&self, other: &Self) -> bool {
        self.is_write == other.is_write && self.end_ns / 1_000_000 == other.end_ns / 1_000_000
    }

    /// Adds another one beside it.
    pub fn merge(&mut self, other: &Self) {
        self.requests += other.requests;
        self.bytes += other.bytes;
        self.latencies_ns.iter_mut().zip(other.latencies_ns).for_each(|(sum, ns)| *sum += ns);
    }
}
