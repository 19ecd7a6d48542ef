//! Values of a device file, each written with its unit: `"512MiB"`, `"8.5ms"`, `"7200rpm"`,
//! `"125MB/s"`, `"3000/s"`.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use floodwall_model::units::parse_duration;
use floodwall_model::{Bytes, Rate};
use serde::Deserialize;

use crate::time::Nanos;

/// A value that is read from a text with a unit.
pub(super) trait FromText: Sized {
    /// Reads it; the error says how to write it.
    fn from_text(text: &str) -> Result<Self, String>;
}

/// Wraps a value so that serde reads it with [`FromText`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Text<T>(pub(super) T);

/// Turns per minute.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rpm(pub(super) f64);

/// Operations per second.
#[derive(Clone, Copy, Debug)]
pub(super) struct PerSecond(pub(super) f64);

/// A number in front of a suffix.
fn number(text: &str, suffix: &str, what: &str, example: &str) -> Result<f64, String> {
    text.trim()
        .strip_suffix(suffix)
        .and_then(|n| n.trim().parse::<f64>().ok())
        .filter(|n| n.is_finite())
        .ok_or_else(|| {
            format!("'{text}' is not a {what}: write a number and a unit, such as {example}")
        })
}

fn refuse_negative(text: &str, what: &str) -> Result<(), String> {
    if text.trim_start().starts_with('-') {
        return Err(format!("'{text}' is negative; no {what} is below zero"));
    }
    Ok(())
}

impl FromText for Bytes {
    fn from_text(text: &str) -> Result<Self, String> {
        refuse_negative(text, "size")?;
        text.parse().map_err(|e: floodwall_model::units::UnitError| e.to_string())
    }
}

impl FromText for Rate {
    fn from_text(text: &str) -> Result<Self, String> {
        refuse_negative(text, "rate")?;
        text.parse().map_err(|e: floodwall_model::units::UnitError| e.to_string())
    }
}

impl FromText for Nanos {
    fn from_text(text: &str) -> Result<Self, String> {
        refuse_negative(text, "time")?;
        parse_duration(text).map(|d: Duration| d.into()).map_err(|e| e.to_string())
    }
}

impl FromText for Rpm {
    fn from_text(text: &str) -> Result<Self, String> {
        number(text, "rpm", "speed of rotation", "7200rpm").map(Self)
    }
}

impl FromText for PerSecond {
    fn from_text(text: &str) -> Result<Self, String> {
        number(text, "/s", "rate of operations", "3000/s").map(Self)
    }
}

impl<'de, T: FromText> Deserialize<'de> for Text<T> {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Visitor<T>(PhantomData<T>);
        impl<T: FromText> serde::de::Visitor<'_> for Visitor<T> {
            type Value = T;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text with a unit, in quotes")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
                T::from_text(text).map_err(E::custom)
            }
            fn visit_i64<E: serde::de::Error>(self, bare: i64) -> Result<T, E> {
                self.visit_str(&bare.to_string())
            }
        }
        d.deserialize_any(Visitor(PhantomData)).map(Text)
    }
}
