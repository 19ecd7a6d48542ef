//! Short JSON: `53e5` for 5300000. Rounded figures end in zeros.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::Formatter;
use serde_json::{Map, Serializer, Value};

/// From so many zeros on a number is written with an exponent.
const LEAST_ZEROS: u32 = 3;
/// A reader takes a number with an exponent for a 64-bit fraction. Up to 2^53 that is exact.
const MOST: u64 = 1 << 53;

/// An object as JSON; `None` if it has no form in it.
pub(super) fn of(object: &Map<String, Value>) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    object.serialize(&mut Serializer::with_formatter(&mut out, Short)).ok()?;
    Some(out)
}

/// A value whose whole numbers were written with exponents.
pub(super) fn whole(value: Value) -> Value {
    if let Value::Array(values) = value {
        return values.into_iter().map(whole).collect();
    }
    match value.as_f64().filter(|number| value.is_f64() && number.fract() == 0.0) {
        Some(number) if (0.0..=MOST as f64).contains(&number) => (number as u64).into(),
        _ => value,
    }
}

struct Short;

impl Formatter for Short {
    fn write_u64<W: ?Sized + Write>(&mut self, out: &mut W, value: u64) -> io::Result<()> {
        let (mut digits, mut zeros) = (value, 0);
        while digits != 0 && digits % 10 == 0 {
            digits /= 10;
            zeros += 1;
        }
        if zeros >= LEAST_ZEROS && value <= MOST {
            write!(out, "{digits}e{zeros}")
        } else {
            write!(out, "{value}")
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn text(value: Value) -> String {
        String::from_utf8(of(value.as_object().unwrap()).unwrap()).unwrap()
    }

    #[test]
    fn zeros_at_the_end_become_an_exponent() {
        let value = json!({"a": [5_300_000, 1200, 0, 7, 1000, -5000, 0.5], "b": "1000"});
        assert_eq!(text(value), r#"{"a":[53e5,1200,0,7,1e3,-5000,0.5],"b":"1000"}"#);
        let most = u64::MAX / 1000 * 1000;
        assert_eq!(text(json!({"a": most})), format!("{{\"a\":{most}}}"));
    }

    proptest! {
        #[test]
        fn numbers_read_back(digits in any::<u64>(), shift in 0..64_u32, zeros in 0..20_u32) {
            let power = 10_u64.checked_pow(zeros);
            let number = power.and_then(|power| (digits >> shift).checked_mul(power));
            let value = json!({"a": [[number.unwrap_or(digits)], 1]});
            let read: Value = serde_json::from_str(&text(value.clone())).unwrap();
            prop_assert_eq!(whole(read["a"].clone()), value["a"].clone());
        }
    }
}
