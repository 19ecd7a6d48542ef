//! What the control groups of a process tell: its unit, its container and its pod.
//!
//! ```text
//! text of /proc/PID/cgroup ─▶ its paths ─▶ the one that tells most ─▶ unit, container, pod's UID
//! ```
//!
//! Pure. ID stands for 64 hexadecimal digits. These programs make these parts of a path:
//!
//! | part of a path | its maker |
//! |---|---|
//! | `docker-ID.scope`, `docker/ID` | moby, daemon/oci\_linux.go |
//! | `libpod-ID.scope`, `libpod-ID`, `libpod-payload-ID` | podman, `getOCICgroupPath` |
//! | `cri-containerd-ID.scope`, `ID` | containerd, internal/cri `getCgroupsPath` |
//! | `SLICE:cri-containerd:ID` | the same, where its runc is not told to use systemd |
//! | `crio-ID.scope`, `crio-ID` | cri-o, internal/config/cgmgr |
//! | `nerdctl-ID.scope` | nerdctl, pkg/cmd/container/run\_cgroup\_linux.go |
//! | `NAMESPACE/ID` | containerd, pkg/oci/spec.go |
//! | `…-podUID.slice`, `podUID` | kubernetes, pkg/kubelet/cm `GetPodCgroupNameSuffix` |
//! | `lxc.payload.NAME` | lxc, src/lxc/cgroups/cgroup.h |
//! | `lxc/NAME` | older lxc; Proxmox (`lxc/100/ns`) |
//! | `machine-NAME.scope` | systemd, src/machine/machine.c `machine_start_scope` |
//! | `systemd-nspawn@NAME.service` | systemd, units/systemd-nspawn@.service.in |
//!
//! An OCI runtime, or a container's own systemd, may make groups below these.

use floodwall_model::control_group::unit;
use std::cmp::Reverse;

/// Digits of a container's ID.
const ID_DIGITS: usize = 64;
/// Digits of a pod's UID, without its dashes: a UUID, or a static pod's hash.
const UID_DIGITS: usize = 32;

/// Where a process runs, as its control groups tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Place<'a> {
    /// The innermost service or scope of systemd's.
    pub(super) unit: Option<&'a str>,
    /// Whether the container's own systemd started the unit.
    pub(super) unit_is_inside: bool,
    /// The innermost container.
    pub(super) container: Option<Container<'a>>,
    /// The UID of the innermost pod, with dashes.
    pub(super) pod: Option<String>,
}

/// What a path tells of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Container<'a> {
    /// Its ID, of 64 hexadecimal digits.
    Id(&'a str),
    /// Its name itself.
    Name(String),
}

/// Where the process runs that this text of /proc/PID/cgroup is of.
///
/// With hierarchies of version 1, a process has several paths. The one that names a container
/// counts, else the one that names a unit. Of several the order is: version 2, systemd's own, the
/// deepest.
pub(super) fn place(text: &str) -> Place<'_> {
    let mut paths: Vec<_> = text.lines().filter_map(path).collect();
    paths.sort_by_key(|(hierarchy, path)| (*hierarchy, Reverse(path.matches('/').count())));
    let places = paths.into_iter().map(|(_, path)| of_path(path));
    // The first of those that tell as much: max_by_key returns the last.
    places.rev().max_by_key(Place::tells).unwrap_or_default()
}

fn is_unit(part: &str) -> bool {
    part.ends_with(".service") || part.ends_with(".scope")
}

/// Whether a control group is a container's, and no single unit's inside of it.
pub(crate) fn is_containers(group: &str) -> bool {
    let place = of_path(group);
    place.container.is_some() && !place.unit_is_inside
}

impl Place<'_> {
    /// How much it tells.
    fn tells(&self) -> u8 {
        match (self.container.is_some() || self.pod.is_some(), self.unit.is_some()) {
            (true, _) => 2,
            (false, true) => 1,
            (false, false) => 0,
        }
    }
}

/// A line's path, after the order of its hierarchy: version 2, systemd's, others (cgroups(7)).
/// Groups have no line end in their names (kernel/cgroup/cgroup.c `cgroup_mkdir`).
fn path(line: &str) -> Option<(u8, &str)> {
    let (number, rest) = line.split_once(':')?;
    let (controllers, path) = rest.split_once(':')?;
    let hierarchy = match (number, controllers) {
        ("0", "") => 0,
        (_, "name=systemd") => 1,
        _ => 2,
    };
    // The group is gone, and the process is ending (`proc_cgroup_show`).
    Some((hierarchy, path.strip_suffix(" (deleted)").unwrap_or(path)))
}

fn of_path(path: &str) -> Place<'_> {
    let mut place = Place { unit: unit(path), ..Place::default() };
    let mut above = "";
    for part in path.split('/') {
        if let Some(uid) = pod_uid(part) {
            // A container around a pod is the node: `kind` runs nodes as containers.
            (place.pod, place.container) = (Some(uid), None);
        }
        if let Some(inner) = container(above, part) {
            (place.container, place.unit_is_inside) = (Some(inner), false);
        } else if is_unit(part) {
            place.unit_is_inside = place.container.is_some();
        }
        above = part;
    }
    place
}

/// The container that a part of a path is of. `above` is the part before it.
fn container<'a>(above: &str, part: &'a str) -> Option<Container<'a>> {
    let lxc = part.strip_prefix("lxc.payload.").or_else(|| (above == "lxc").then_some(part));
    let named = lxc.map(str::to_owned).or_else(|| machine(part)).filter(|name| !name.is_empty());
    named.map(Container::Name).or_else(|| id(part).map(Container::Id))
}

/// `docker-ID.scope`, `libpod-ID`, `SLICE:cri-containerd:ID`, `ID`. A container's conmon, which
/// writes its log, is not in it: `libpod-conmon-ID.scope`, `crio-conmon-ID`.
fn id(part: &str) -> Option<&str> {
    let name = part.strip_suffix(".scope").unwrap_or(part);
    let (before, id) = name.split_at_checked(name.len().checked_sub(ID_DIGITS)?)?;
    let engine = before.strip_suffix(['-', ':']);
    let is_of = engine.map_or(before.is_empty(), |engine| !engine.ends_with("conmon"));
    (is_of && id.bytes().all(|digit| digit.is_ascii_hexdigit())).then_some(id)
}

/// The name of a container of systemd-nspawn's. Libvirt registers its virtual machines likewise.
fn machine(part: &str) -> Option<String> {
    let scope = || part.strip_prefix("machine-")?.strip_suffix(".scope");
    let service = || part.strip_prefix("systemd-nspawn@")?.strip_suffix(".service");
    let name = scope().or_else(service)?;
    (!name.starts_with(r"qemu\x2d")).then(|| unescaped(name))
}

/// `kubepods-burstable-podUID.slice`, with `_` in the place of dashes, or `podUID`.
fn pod_uid(part: &str) -> Option<String> {
    let name = part.split(':').next()?;
    let name = name.strip_suffix(".slice").unwrap_or(name);
    let (before, uid) = name.rsplit_once("pod")?;
    let uid = uid.replace('_', "-");
    ((before.is_empty() || before.ends_with('-')) && is_uid(&uid)).then_some(uid)
}

/// Whether a text is a pod's UID.
pub(super) fn is_uid(text: &str) -> bool {
    let digits = text.replace('-', "");
    digits.len() == UID_DIGITS && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
}

/// Undoes `\x2d` (systemd.unit(5), "String escaping for inclusion in unit names").
fn unescaped(name: &str) -> String {
    let mut parts = name.split(r"\x");
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let hex = part.split_at_checked(2).filter(|(hex, _)| !hex.starts_with('+'));
        match hex.and_then(|(hex, rest)| Some((u8::from_str_radix(hex, 16).ok()?, rest))) {
            Some((byte, rest)) => {
                bytes.push(byte);
                bytes.extend(rest.as_bytes());
            }
            None => bytes.extend([br"\x", part.as_bytes()].concat()),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
