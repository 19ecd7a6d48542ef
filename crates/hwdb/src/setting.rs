//! Settings in submissions and keys: `nr_requests=8,scheduler=bfq`, the knobs in the order of their
//! names.
//!
//! Only knobs that mean the same on every machine are allowed, each in a range that a machine can
//! have. Limits of control groups are not: their names belong to one bench.

use floodwall_model::Setting;

use crate::refused::Refused;

/// More knobs than any search changes at once.
const MOST_KNOBS: usize = 12;
/// A longer number is no knob's value.
const MOST_DIGITS: usize = 13;
/// Two searches found the same if no number differs by more than this factor: the levels that a
/// search tries are so far apart.
const NEAR: f64 = 2.0;

/// Allowed values of a knob.
enum Values {
    /// One of these words.
    Words(&'static [&'static str]),
    /// A whole number from the first to the second.
    Numbers(u64, u64),
}

/// The best-effort priorities. Real time can starve writeback.
const BEST_EFFORT: Values = Values::Words(&["be/0", "be/1", "be/2", "be/3", "be/4"]);
/// Any tunable of an elevator: times in ns are its largest numbers.
const TUNABLE: Values = Values::Numbers(0, 60_000_000_000);

/// The values that a knob may have; `None` for knobs that are not allowed.
fn values(knob: &str) -> Option<Values> {
    Some(match knob {
        "scheduler" => Values::Words(&["none", "mq-deadline", "kyber", "bfq"]),
        "nr_requests" => Values::Numbers(1, 65_536),
        "device.queue_depth" => Values::Numbers(1, 4_096),
        "max_sectors_kb" => Values::Numbers(4, 1 << 20),
        "wbt_lat_usec" => Values::Numbers(0, 10_000_000),
        "bdi.max_ratio" => Values::Numbers(1, 100),
        "bdi.strict_limit" => Values::Numbers(0, 1),
        // 1 MiB to 1 TiB: a limit of a few pages stops every writer.
        "bdi.max_bytes" | "vm.dirty_bytes" | "vm.dirty_background_bytes" => {
            Values::Numbers(1 << 20, 1 << 40)
        }
        "victim.ioprio" | "journal.ioprio" => BEST_EFFORT,
        tunable => {
            let name = tunable.strip_prefix("iosched.")?;
            let is_word = |c: char| c.is_ascii_lowercase() || c == '_' || c.is_ascii_digit();
            ((1..=32).contains(&name.len()) && name.chars().all(is_word)).then_some(TUNABLE)?
        }
    })
}

/// Reads a setting.
///
/// # Errors
/// [`Refused`] for a knob that is not allowed, is named twice or is out of order, and for a value
/// outside the knob's range.
pub fn parse_setting(text: &str) -> Result<Setting, Refused> {
    let refused = |why: &str| Refused::field("setting", text, why);
    let mut pairs: Vec<(String, String)> = Vec::new();
    for part in text.split(',') {
        let (knob, value) = part.split_once('=').ok_or_else(|| refused("write KNOB=VALUE,…"))?;
        match values(knob) {
            None => return Err(refused("it has a knob that is not allowed")),
            Some(Values::Words(words)) if words.contains(&value) => {}
            Some(Values::Words(_)) => return Err(refused("a value is not one of its knob's")),
            Some(Values::Numbers(least, most)) => {
                let is_number = value.len() <= MOST_DIGITS
                    && value.bytes().all(|b| b.is_ascii_digit())
                    && (value == "0" || !value.starts_with('0'));
                let number = value.parse::<u64>().ok().filter(|_| is_number);
                if number.is_none_or(|number| number < least || number > most) {
                    return Err(refused("a value is out of range"));
                }
            }
        }
        if pairs.last().is_some_and(|(last, _)| last.as_str() >= knob) {
            return Err(refused("its knobs must be in the order of their names, each once"));
        }
        pairs.push((knob.to_owned(), value.to_owned()));
    }
    if pairs.len() > MOST_KNOBS { Err(refused("it has too many knobs")) } else { Ok(from(pairs)) }
}

fn from(pairs: Vec<(String, String)>) -> Setting {
    pairs.into_iter().collect()
}

/// A setting as [`parse_setting`] reads it.
///
/// # Errors
/// As [`parse_setting`]: a search may have used knobs that mean nothing elsewhere.
pub fn setting_text(setting: &Setting) -> Result<String, Refused> {
    let text = setting.to_string();
    parse_setting(&text).map(|_| text)
}

/// Whether two settings have the same knobs, the same words and numbers that are near each other.
pub(crate) fn are_near(a: &Setting, b: &Setting) -> bool {
    let is_near = |((knob, x), (other, y)): ((&String, &String), (&String, &String))| {
        let numbers = x.parse::<f64>().ok().zip(y.parse::<f64>().ok());
        let near = match numbers {
            Some((x, y)) => x == y || (x.min(y) > 0.0 && x.max(y) / x.min(y) <= NEAR),
            None => x == y,
        };
        knob == other && near
    };
    a.0.len() == b.0.len() && a.0.iter().zip(&b.0).all(is_near)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_knobs_of_any_machine_in_their_ranges_are_read() {
        for good in [
            "nr_requests=8,scheduler=bfq",
            "iosched.slice_idle_us=0,scheduler=bfq,victim.ioprio=be/0",
            "vm.dirty_background_bytes=7500000,vm.dirty_bytes=15000000",
        ] {
            assert_eq!(parse_setting(good).unwrap().to_string(), good);
        }
        for (bad, part) in [
            ("", "write KNOB=VALUE"),
            ("scheduler", "write KNOB=VALUE"),
            ("scheduler=cfq", "not one of its knob's"),
            ("scheduler=bfq,scheduler=none", "each once"),
            ("scheduler=bfq,nr_requests=8", "in the order"),
            ("nr_requests=0", "out of range"),
            ("nr_requests=08", "out of range"),
            ("nr_requests=-8", "out of range"),
            ("nr_requests=8e3", "out of range"),
            ("nr_requests=99999999999999999999", "out of range"),
            ("vm.dirty_bytes=4096", "out of range"),
            ("victim.ioprio=rt/0", "not one of its knob's"),
            ("flood:io.max=wbps=1", "not allowed"),
            ("kernel.core_pattern=x", "not allowed"),
            ("iosched.../../x=1", "not allowed"),
        ] {
            let said = parse_setting(bad).unwrap_err().to_string();
            assert!(said.contains(part), "{bad}: {said}");
        }
        let many: Vec<String> = (0..13).map(|n| format!("iosched.t{n:02}=1")).collect();
        assert!(parse_setting(&many.join(",")).is_err());
    }

    #[test]
    fn settings_are_near_if_a_search_could_not_tell_them_apart() {
        let near = |a: &str, b: &str| {
            let [a, b] = [a, b].map(|text| parse_setting(text).unwrap());
            assert_eq!(are_near(&a, &b), are_near(&b, &a));
            are_near(&a, &b)
        };
        assert!(near("nr_requests=8,scheduler=bfq", "nr_requests=16,scheduler=bfq"));
        assert!(!near("nr_requests=8,scheduler=bfq", "nr_requests=17,scheduler=bfq"));
        assert!(!near("nr_requests=8,scheduler=bfq", "nr_requests=8,scheduler=kyber"));
        assert!(!near("nr_requests=8", "nr_requests=8,scheduler=bfq"));
        assert!(!near("wbt_lat_usec=0", "wbt_lat_usec=2000"), "wbt is off, or on");
    }
}
