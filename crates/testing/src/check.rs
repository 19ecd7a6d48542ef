//! A test's checks. A failure is an error in words, so that the test takes away what it has made.

use std::fmt::{Debug, Display};
use std::time::{Duration, Instant};

/// How often [`until`] looks.
const LOOK: Duration = Duration::from_millis(10);

/// The words of a failure, or how to find them.
pub trait Message {
    /// The words.
    fn words(self) -> String;
}

impl Message for String {
    fn words(self) -> String {
        self
    }
}

impl Message for &String {
    fn words(self) -> String {
        self.clone()
    }
}

impl Message for &str {
    fn words(self) -> String {
        self.to_owned()
    }
}

impl<F: FnOnce() -> String> Message for F {
    fn words(self) -> String {
        self()
    }
}

/// Turns any error into a test's failure: `.map_err(said("mkdir"))`.
pub fn said<E: Display>(what: &str) -> impl Fn(E) -> String + use<'_, E> {
    move |e| format!("{what}: {e}")
}

/// Fails with a message unless something holds.
///
/// # Errors
/// The message.
pub fn ensure(holds: bool, otherwise: impl Message) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise.words()) }
}

/// Fails unless two values are equal.
///
/// # Errors
/// Both values.
pub fn equal<T: PartialEq + Debug>(found: T, wanted: T) -> Result<(), String> {
    ensure(found == wanted, || format!("{found:?}, not {wanted:?}"))
}

/// Waits until something holds.
///
/// # Errors
/// `what`, if it does not hold after `patience`.
pub fn until(
    patience: Duration,
    what: &str,
    mut holds: impl FnMut() -> bool,
) -> Result<(), String> {
    let begin = Instant::now();
    while !holds() {
        ensure(begin.elapsed() < patience, || format!("not within {patience:?}: {what}"))?;
        std::thread::sleep(LOOK);
    }
    Ok(())
}
