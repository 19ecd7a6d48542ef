//! One thing to store of a captured tree.

/// One thing to store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Absolute, as on the machine.
    pub path: String,
    /// Its content.
    pub content: Content,
}

/// The content of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// A file with this text.
    Text(String),
    /// A symbolic link to this target, relative.
    Link(String),
    /// A directory that counts even if it is empty.
    Directory,
    /// Something that could not be read.
    Unreadable,
}

/// The absolute path of a relative link's target. In sysfs the directories above a link are real,
/// so `..` can be taken literally.
pub(super) fn resolved(link: &str, target: &str) -> String {
    let mut parts: Vec<&str> = link.split('/').filter(|p| !p.is_empty()).collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            ".." => {
                parts.pop();
            }
            "" | "." => {}
            name => parts.push(name),
        }
    }
    format!("/{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_resolved_from_where_they_are() {
        assert_eq!(
            resolved("/sys/dev/block/8:1", "../../devices/pci/sda/sda1"),
            "/sys/devices/pci/sda/sda1"
        );
        assert_eq!(resolved("/a/b", "../../../x"), "/x");
    }
}
