//! The alphabet of names in keys: nothing that fnmatch(3), hwdb(7) or a terminal obeys.

use crate::refused::Refused;

/// A longer name is not a device's: SCSI gives a vendor 8 and a model 16 characters, ATA and NVMe
/// a model 40.
const MOST_MODEL: usize = 64;
/// NVMe and ATA give a firmware revision 8 characters, makers of arrays more.
const MOST_REVISION: usize = 32;
/// Characters of names beside letters, digits and blanks. A colon would end the name in a key.
const SIGNS: &str = "-_./+()";

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == ' ' || SIGNS.contains(c)
}

/// A device's model as keys have it: other characters than theirs become `_`, and blanks are
/// squeezed. `None` if nothing remains that names a device.
#[must_use]
pub fn model_name(text: &str) -> Option<String> {
    name_of(text, MOST_MODEL).filter(|name| check_model(name).is_ok())
}

/// A firmware revision as keys have it, by the same rules.
#[must_use]
pub fn revision(text: &str) -> Option<String> {
    name_of(text, MOST_REVISION).filter(|name| check_revision(name).is_ok())
}

fn name_of(text: &str, most: usize) -> Option<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let plain = |c| if is_plain(c) { c } else { '_' };
    let name: String = words.join(" ").chars().map(plain).take(most).collect();
    let name = name.trim();
    (!name.is_empty()).then(|| name.to_owned())
}

/// Refuses a model that no device has or that would match several.
pub(crate) fn check_model(text: &str) -> Result<(), Refused> {
    check("model", text, MOST_MODEL)?;
    // One letter or digit would be a guess of many.
    if text.chars().filter(char::is_ascii_alphanumeric).count() < 3 {
        return Err(Refused::field("model", text, "it names no device"));
    }
    Ok(())
}

/// Refuses a firmware revision that is more than a name.
pub(crate) fn check_revision(text: &str) -> Result<(), Refused> {
    check("firmware", text, MOST_REVISION)
}

fn check(field: &'static str, text: &str, most: usize) -> Result<(), Refused> {
    if let Some(c) = text.chars().find(|c| !is_plain(*c)) {
        let why = format!("the character {} is not allowed", c.escape_default());
        return Err(Refused::field(field, text, &why));
    }
    let is_squeezed = !text.is_empty() && text.split(' ').all(|word| !word.is_empty());
    match text.chars().count() {
        length if length > most => Err(Refused::field(field, text, "it is too long")),
        _ if !is_squeezed => Err(Refused::field(field, text, "it is empty or has stray blanks")),
        _ => Ok(()),
    }
}

/// Refuses a kernel's release beyond its numbers: the rest may be a person's name.
pub(crate) fn check_kernel(text: &str) -> Result<(), Refused> {
    let parts: Vec<&str> = text.split('.').collect();
    let is_number =
        |part: &&str| (1..=4).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
    if (2..=3).contains(&parts.len()) && parts.iter().all(is_number) {
        return Ok(());
    }
    Err(Refused::field("kernel", text, "write its numbers alone, such as 6.18.5"))
}

/// Refuses a filesystem's type that is more than a word.
pub(crate) fn check_filesystem(text: &str) -> Result<(), Refused> {
    let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    if (1..=16).contains(&text.len()) && text.chars().all(is_word) {
        return Ok(());
    }
    Err(Refused::field("filesystem", text, "write its type, such as ext4"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_the_kernel_becomes_one_of_keys() {
        let model = |text| model_name(text);
        assert_eq!(model("Samsung SSD  860 EVO 500GB "), Some("Samsung SSD 860 EVO 500GB".into()));
        assert_eq!(model("a*b:c\n[d]#é"), Some("a_b_c _d___".into()));
        assert_eq!(model("***"), None);
        assert_eq!(model(" \n"), None);
        assert_eq!(model(&"x".repeat(99)).map(|m| m.len()), Some(MOST_MODEL));
        assert_eq!(revision("RVT02B6Q"), Some("RVT02B6Q".into()));
        assert_eq!(revision("0\t5"), Some("0 5".into()));
    }

    #[test]
    fn a_release_is_its_numbers() {
        for good in ["6.1", "6.18.5", "2.6.32"] {
            assert!(check_kernel(good).is_ok(), "{good}");
        }
        for bad in ["6", "6.18.5-jane", "6.18.5.1", "6..1", "", "6.1\n", "99999.1", "६.१"] {
            assert!(check_kernel(bad).is_err(), "{bad}");
        }
    }
}
