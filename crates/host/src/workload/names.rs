//! Names of containers and pods, from the files that their runtimes keep. No runtime is asked.
//!
//! ```text
//! kubelet     /var/log/containers/POD_NAMESPACE_CONTAINER-ID.log    ┐
//! kubelet     /var/log/pods/NAMESPACE_POD_UID/                      │ all at once: `Names`
//! podman      /{var/lib,run}/containers/storage/DRIVER-containers/  │
//! and cri-o       {,volatile-}containers.json: id, names            ┘
//! docker      /var/lib/docker/containers/ID/config.v2.json: Name    ┐ of one container:
//! containerd  /run/containerd/io.containerd.runtime.v2.task/        │ `read_one`
//!                 NAMESPACE/ID/config.json: annotations             ┘
//! ```
//!
//! Sources of the formats: kubernetes pkg/kubelet/kuberuntime/legacy.go `logSymlink` and helpers.go
//! `BuildPodLogsDirectory`; containers/storage store.go `load` and containers.go; moby
//! daemon/container/container.go; containerd core/runtime/v2/bundle.go and
//! pkg/cri/annotations/annotations.go; nerdctl pkg/labels/labels.go.
//!
//! Absent and unreadable are one here: a name is not known. Texts come from whoever started the
//! container, so their length is bounded, and JSON of another form is ignored.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::group::is_uid;
use crate::root::SysRoot;

const LOGS_OF_CONTAINERS: &str = "/var/log/containers";
const LOGS_OF_PODS: &str = "/var/log/pods";
/// Of podman and cri-o: what stays over a boot, and what need not.
const STORAGES: [&str; 2] = ["/var/lib/containers/storage", "/run/containers/storage"];
const STORED: [&str; 2] = ["containers.json", "volatile-containers.json"];
const DOCKER: &str = "/var/lib/docker/containers";
const CONTAINERD: &str = "/run/containerd/io.containerd.runtime.v2.task";

/// A larger file is ignored. A thousand containers of podman's take 1 MiB, an OCI configuration
/// some 20 KiB.
const MOST_BYTES: usize = 4 << 20;
/// A longer name is ignored. No directory's entry is longer, nor a name of Kubernetes'.
const LONGEST_NAME: usize = 255;

/// The names of one container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Named {
    /// Its own; `None` for a pod's sandbox, which is no container to its users.
    pub(super) container: Option<String>,
    /// Its pod, as `NAMESPACE/NAME`; `None` if it is in none of Kubernetes'.
    pub(super) pod: Option<String>,
}

/// The names in directories that hold those of all containers.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    containers: BTreeMap<String, Named>,
    /// By UID, without dashes.
    pods: BTreeMap<String, String>,
}

impl Names {
    /// Reads these directories.
    pub(super) fn read(root: &SysRoot) -> Self {
        let mut containers: BTreeMap<String, Named> = stored(root).collect();
        let logs = root.list(LOGS_OF_CONTAINERS).into_value().unwrap_or_default();
        containers.extend(logs.iter().filter_map(|name| of_log(name)));
        let pods = root.list(LOGS_OF_PODS).into_value().unwrap_or_default();
        Self { containers, pods: pods.iter().filter_map(|name| of_pod_logs(name)).collect() }
    }

    /// The names of the container with an ID.
    pub(super) fn container(&self, id: &str) -> Option<&Named> {
        self.containers.get(id)
    }

    /// The pod with a UID, as `NAMESPACE/NAME`.
    pub(super) fn pod(&self, uid: &str) -> Option<&String> {
        self.pods.get(&uid.replace('-', ""))
    }
}

/// The names of the container with an ID, of 64 hexadecimal digits, from files that are its alone.
pub(super) fn read_one(root: &SysRoot, id: &str) -> Option<Named> {
    let docker = json::<DockerConfig>(root, &format!("{DOCKER}/{id}/config.v2.json"));
    if let Some(named) = docker.and_then(|config| of_runtime(config.name)) {
        return Some(named);
    }
    let namespaces = root.list(CONTAINERD).into_value().unwrap_or_default();
    namespaces.iter().find_map(|namespace| {
        let path = format!("{CONTAINERD}/{namespace}/{id}/config.json");
        of_annotations(json::<OciConfig>(root, &path)?.annotations)
    })
}

/// The used part of docker's description of a container.
#[derive(Deserialize)]
struct DockerConfig {
    #[serde(rename = "Name")]
    name: String,
}

/// The used part of an entry of containers/storage.
#[derive(Deserialize)]
struct StoredContainer {
    id: String,
    #[serde(default)]
    names: Vec<String>,
}

/// The used part of an OCI runtime's configuration.
#[derive(Deserialize)]
struct OciConfig {
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

fn json<T: DeserializeOwned>(root: &SysRoot, path: &str) -> Option<T> {
    let mut text = Vec::new();
    root.read_into(path, &mut text).ok()?;
    if text.len() > MOST_BYTES {
        return None;
    }
    serde_json::from_slice(&text).ok()
}

/// The containers of podman and cri-o.
fn stored(root: &SysRoot) -> impl Iterator<Item = (String, Named)> {
    STORAGES.into_iter().flat_map(move |storage| {
        let drivers = root.list(storage).into_value().unwrap_or_default();
        let drivers = drivers.into_iter().filter(|driver| driver.ends_with("-containers"));
        let files =
            drivers.flat_map(move |driver| STORED.map(|file| format!("{storage}/{driver}/{file}")));
        let stored = files.filter_map(|file| json::<Vec<StoredContainer>>(root, &file)).flatten();
        stored.filter_map(|one| Some((one.id, of_runtime(one.names.into_iter().next()?)?)))
    })
}

/// `web-0_shop_db-ID.log`. The kubelet cuts what is longer than a file's name may be.
fn of_log(name: &str) -> Option<(String, Named)> {
    let (names, id) = name.strip_suffix(".log")?.rsplit_once('-')?;
    let [pod, namespace, container] = parts(names)?;
    let named = Named { container: Some(container.to_owned()), pod: Some(joined(namespace, pod)) };
    Some((id.to_owned(), named))
}

/// `shop_web-0_UID`.
fn of_pod_logs(name: &str) -> Option<(String, String)> {
    let [namespace, pod, uid] = parts(name)?;
    is_uid(uid).then(|| (uid.replace('-', ""), joined(namespace, pod)))
}

/// A runtime's name of a container. Names that cri-o, dockershim and cri-dockerd give are
/// `k8s_CONTAINER_POD_NAMESPACE_UID_ATTEMPT` (cri-o server/naming.go), and `POD` is a sandbox.
fn of_runtime(name: String) -> Option<Named> {
    let name = bounded(name)?;
    let name = name.strip_prefix('/').unwrap_or(&name);
    Some(match parts(name) {
        Some(["k8s", container, pod, namespace, _, _]) => Named {
            container: (container != "POD").then(|| container.to_owned()),
            pod: Some(joined(namespace, pod)),
        },
        _ => Named { container: Some(name.to_owned()), pod: None },
    })
}

/// Notes of containerd's CRI plugin and of nerdctl.
fn of_annotations(mut annotations: BTreeMap<String, String>) -> Option<Named> {
    let mut take = |name: &str| annotations.remove(name).and_then(bounded);
    let sandbox =
        (take("io.kubernetes.cri.sandbox-namespace"), take("io.kubernetes.cri.sandbox-name"));
    let container = take("io.kubernetes.cri.container-name").or_else(|| take("nerdctl/name"));
    let pod = match sandbox {
        (Some(namespace), Some(pod)) => Some(joined(&namespace, &pod)),
        _ => None,
    };
    (container.is_some() || pod.is_some()).then_some(Named { container, pod })
}

/// The parts between underscores, none of them empty. Kubernetes' names have no underscore.
fn parts<const N: usize>(name: &str) -> Option<[&str; N]> {
    let parts: [&str; N] = name.split('_').collect::<Vec<_>>().try_into().ok()?;
    (!parts.contains(&"")).then_some(parts)
}

fn joined(namespace: &str, pod: &str) -> String {
    format!("{namespace}/{pod}")
}

fn bounded(name: String) -> Option<String> {
    (1..=LONGEST_NAME).contains(&name.len()).then_some(name)
}
