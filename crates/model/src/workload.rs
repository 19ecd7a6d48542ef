//! What a process runs in: a unit of systemd's, a container, a pod of Kubernetes'.

use serde::{Deserialize, Serialize};

/// What a process runs in, as far as its control group and the runtimes' files tell.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Workload {
    /// The innermost service or scope of systemd's (`postgresql.service`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// The container's name, else the first 12 digits of its number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// The pod, as `NAMESPACE/NAME`, else its UID.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
}

impl Workload {
    /// Whether nothing is known of it.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        *self == Self::default()
    }

    /// Its shortest telling name: `default/web-0:db` for a container of a pod, else the pod, the
    /// container, the unit; `None` if nothing is known.
    #[must_use]
    pub fn label(&self) -> Option<String> {
        match (&self.pod, &self.container, &self.unit) {
            (Some(pod), Some(container), _) => Some(format!("{pod}:{container}")),
            (Some(name), None, _) | (None, Some(name), _) | (None, None, Some(name)) => {
                Some(name.clone())
            }
            (None, None, None) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_names_a_process_before_its_container_and_its_unit() {
        let all = Workload {
            unit: Some("cri-containerd-ab.scope".into()),
            container: Some("db".into()),
            pod: Some("shop/web-0".into()),
        };
        assert_eq!(all.label().as_deref(), Some("shop/web-0:db"));
        let unit = Workload { unit: Some("cron.service".into()), ..Workload::default() };
        assert_eq!(unit.label().as_deref(), Some("cron.service"));
        assert_eq!(Workload::default().label(), None);
    }
}
