//! Paths of control groups, trees of runtimes, the cache, and hostile texts.

use std::path::Path;

use proptest::prelude::*;

use super::group::{Container, is_containers, place};
use super::*;
use crate::root::testing::{put, tree};

/// An ID of 64 digits.
const ID: &str = "4507e58a91506b9ce8c3e7bcd202157e02a02ab98759cb7f8f3331643e155418";
const OUTER: &str = "d79a17ff4d5a65c053189ea7f694a25602c1da62e1f7ab8201bf3169b46bbd5e";
const UID: &str = "66bbaa5b-bd35-4f20-a02f-f9e469f6c321";
/// The hash of a static pod's manifest.
const HASH: &str = "a81259cef8e959c624df1d456e5d3297";

/// `unit | container | pod` of a text of /proc/PID/cgroup; `-` is unknown.
fn told(text: &str) -> String {
    let place = place(text);
    let container = match &place.container {
        Some(Container::Id(id)) => Some(id.get(..SHORT_ID_DIGITS).unwrap().to_owned()),
        Some(Container::Name(name)) => Some(name.clone()),
        None => None,
    };
    let or = |part: Option<&str>| part.unwrap_or("-").to_owned();
    format!("{} | {} | {}", or(place.unit), or(container.as_deref()), or(place.pod.as_deref()))
}

#[test]
fn a_path_tells_unit_container_and_pod() {
    let slice = UID.replace('-', "_");
    let inner = format!("cri-containerd-{ID}.scope");
    let table = [
        ("/", "- | - | -"),
        ("/../..", "- | - | -"),
        ("", "- | - | -"),
        ("/init.scope", "init.scope | - | -"),
        ("/system.slice/cron.service", "cron.service | - | -"),
        ("/system.slice/db.service/worker", "db.service | - | -"),
        ("/system.slice/x.service (deleted)", "x.service | - | -"),
        (r"/a.slice/dev\x2dsda.service", r"dev\x2dsda.service | - | -"),
        (
            "/user.slice/user-1000.slice/user@1000.service/app.slice/app-x.service",
            "app-x.service | - | -",
        ),
        ("/docker/ID", "- | 4507e58a9150 | -"),
        ("/system.slice/docker-ID.scope", "docker-ID.scope | 4507e58a9150 | -"),
        ("/system.slice/docker-ID.scope/init.scope", "init.scope | 4507e58a9150 | -"),
        ("/machine.slice/libpod-ID.scope/container", "libpod-ID.scope | 4507e58a9150 | -"),
        ("/machine.slice/libpod-conmon-ID.scope", "libpod-conmon-ID.scope | - | -"),
        ("/libpod_parent/libpod-ID", "- | 4507e58a9150 | -"),
        ("/libpod_parent/conmon", "- | - | -"),
        ("/system.slice/web.service/libpod-payload-ID", "web.service | 4507e58a9150 | -"),
        ("/system.slice/web.service/runtime", "web.service | - | -"),
        ("/default/ID", "- | 4507e58a9150 | -"),
        ("/crio/crio-ID", "- | 4507e58a9150 | -"),
        // No IDs: cut, too long, of other digits.
        ("/docker/4507e58a9150", "- | - | -"),
        ("/docker/ID0", "- | - | -"),
        ("/docker/0ID", "- | - | -"),
        ("/docker/gID", "- | - | -"),
        ("/kubepods/burstable/podUID/ID", "- | 4507e58a9150 | UID"),
        ("/kubepods/podHASH/ID", "- | 4507e58a9150 | HASH"),
        ("/kubepods.slice/kubepods-podSLICE.slice/INNER", "INNER | 4507e58a9150 | UID"),
        ("/kubepods.slice/kubepods-burstable-podUID.slice/INNER", "INNER | 4507e58a9150 | UID"),
        ("/kubepods-besteffort-podSLICE.slice:cri-containerd:ID", "- | 4507e58a9150 | UID"),
        (
            "/kubepods.slice/kubepods-podSLICE.slice/crio-conmon-ID.scope",
            "crio-conmon-ID.scope | - | UID",
        ),
        ("/../../podUID/ID", "- | 4507e58a9150 | UID"),
        ("/machine.slice/machine-libpod_pod_ID.slice", "- | - | -"),
        ("/podman", "- | - | -"),
        // A node of kind's is a container, and so are the containers on it.
        ("/docker/OUTER/kubelet/kubepods/podUID/ID", "- | 4507e58a9150 | UID"),
        ("/docker/OUTER/kubelet/kubepods/podUID", "- | - | UID"),
        ("/docker/OUTER/system.slice/kubelet.service", "kubelet.service | d79a17ff4d5a | -"),
        ("/kubepods/podUID/OUTER/docker/ID", "- | 4507e58a9150 | UID"),
        ("/lxc.payload.web-1/system.slice/nginx.service", "nginx.service | web-1 | -"),
        ("/lxc.monitor.web-1", "- | - | -"),
        ("/lxc.payload.", "- | - | -"),
        ("/lxc/100/ns/init.scope", "init.scope | 100 | -"),
        (r"/machine.slice/machine-web\x2d1.scope/payload", r"machine-web\x2d1.scope | web-1 | -"),
        (r"/machine.slice/machine-a\x2.scope", r"machine-a\x2.scope | a\x2 | -"),
        (r"/machine.slice/machine-qemu\x2d1\x2dvm.scope", r"machine-qemu\x2d1\x2dvm.scope | - | -"),
        ("/machine.slice/systemd-nspawn@db.service/payload", "systemd-nspawn@db.service | db | -"),
    ];
    let filled = |text: &str| {
        let names = [("SLICE", slice.as_str()), ("INNER", &inner), ("OUTER", OUTER), ("UID", UID)];
        let names = names.into_iter().chain([("HASH", HASH), ("ID", ID)]);
        names.fold(text.to_owned(), |text, (name, value)| text.replace(name, value))
    };
    for (path, expected) in table {
        assert_eq!(told(&format!("0::{}\n", filled(path))), filled(expected), "{path}");
    }
}

#[test]
fn of_several_hierarchies_the_one_with_a_container_counts_else_systemds() {
    let own = "1:name=systemd:/system.slice/cron.service\n";
    assert_eq!(told(&format!("4:memory:/a/b.service\n{own}")), "cron.service | - | -");
    assert_eq!(told(&format!("4:memory:/docker/{ID}\n{own}")), "- | 4507e58a9150 | -");
    assert_eq!(told(&format!("{own}0::/user.slice/a.scope\n")), "a.scope | - | -");
    assert_eq!(told(&format!("{own}0::/\n")), "cron.service | - | -");
    assert_eq!(told("3:cpu:/b.service\n4:memory:/a/c.service\n"), "c.service | - | -");
    assert_eq!(told("9:name=systemd:/\n0::/\n"), "- | - | -");
    assert_eq!(told("no such line\n1\n2:x\n"), "- | - | -");
}

#[test]
fn a_containers_group_is_none_of_its_units() {
    let is = |path: &str| is_containers(&path.replace("ID", ID));
    assert!(is("/system.slice/docker-ID.scope") && is("/machine.slice/libpod-ID.scope/container"));
    assert!(is("system.slice/web.service/libpod-payload-ID") && is("/lxc/100/ns"));
    assert!(!is("/lxc.payload.web/system.slice/nginx.service"));
    assert!(!is("/docker/ID/system.slice/kubelet.service") && !is("/system.slice/cron.service"));
}

/// `unit | container | pod` of the processes of a runtime's tree, the unit without its ID.
fn processes(runtime: &str) -> Vec<String> {
    let trees = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/workloads");
    let root = SysRoot::new(&trees.join(runtime)).unwrap();
    let mut workloads = Workloads::new(&root);
    let pids = root.list("/proc").into_value().unwrap();
    let told = pids.iter().map(|pid| {
        let found = workloads.of(pid.parse().unwrap(), Duration::ZERO).1;
        let digits = |part: &str| part.len() == 64 && part.bytes().all(|b| b.is_ascii_hexdigit());
        let unit = found.unit.map(|unit| {
            let parts = unit.split_inclusive(['-', '.']);
            let is_id = |part: &str| digits(part.trim_end_matches(['-', '.']));
            parts.map(|part| if is_id(part) { "ID." } else { part }).collect::<String>()
        });
        let or = |part: Option<String>| part.unwrap_or_else(|| "-".to_owned());
        format!("{pid} {} | {} | {}", or(unit), or(found.container), or(found.pod))
    });
    told.collect()
}

#[test]
fn docker_names_its_containers() {
    let expected = [
        "101 docker-ID.scope | db | -",
        // Version 1, with an idle hierarchy of version 2 beside it.
        "102 - | warehouse | -",
        // Its files are elsewhere.
        "103 docker-ID.scope | e8c443bfc176 | -",
        // On a node of kind's.
        "104 cri-containerd-ID.scope | 96fe06b8b29a | 8cc77f1b-6ca8-4505-aef1-b016615afdf8",
        "105 kubelet.service | kind-worker | -",
        "106 docker.service | - | -",
    ];
    assert_eq!(processes("docker"), expected);
}

#[test]
fn podman_names_its_containers() {
    let expected = [
        "101 libpod-ID.scope | db | -",
        "102 - | job | -",
        "103 web.service | systemd-web | -",
        // Without root.
        "104 libpod-ID.scope | d15bfafd81e7 | -",
        "105 libpod-conmon-ID.scope | - | -",
        // In the storage that does not outlive the boot.
        "106 libpod-ID.scope | transient | -",
    ];
    assert_eq!(processes("podman"), expected);
}

#[test]
fn containerd_and_the_kubelet_name_containers_and_pods() {
    let expected = [
        "101 cri-containerd-ID.scope | db | shop/web-0",
        "102 cri-containerd-ID.scope | copy | ops/backup-28012345-x7k2p",
        // A static pod, with the cgroupfs driver.
        "103 - | etcd | kube-system/etcd-node-1",
        // The pod's sandbox.
        "104 cri-containerd-ID.scope | - | shop/web-0",
        // The kubelet has not linked its log yet.
        "105 cri-containerd-ID.scope | init | shop/new-5d9",
        "106 cri-containerd-ID.scope | 37429fabda11 | ad921d60-4863-4625-a809-553a3db49a4a",
        // Nerdctl's, by systemd and without.
        "107 nerdctl-ID.scope | cache | -",
        "108 - | cache | -",
        // Version 1, and a runc that takes systemd's form for a path.
        "109 containerd.service | db | shop/web-0",
        "110 containerd.service | - | -",
    ];
    assert_eq!(processes("containerd"), expected);
}

#[test]
fn crio_and_the_kubelet_name_containers_and_pods() {
    let expected = [
        "101 crio-ID.scope | prometheus | watch/prometheus-0",
        // Only cri-o's storage knows it.
        "102 crio-ID.scope | reload | watch/prometheus-0",
        "103 crio-ID.scope | - | watch/prometheus-0",
        "104 crio-conmon-ID.scope | - | watch/prometheus-0",
        "105 - | prometheus | watch/prometheus-0",
    ];
    assert_eq!(processes("crio"), expected);
}

/// A moment of the caller's clock.
fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A process in a container of docker's, and where docker keeps its name.
fn contained() -> (tempfile::TempDir, SysRoot, String) {
    let (dir, root) = tree(&[("proc/7/cgroup", &format!("0::/docker/{ID}\n"))]);
    (dir, root, format!("var/lib/docker/containers/{ID}/config.v2.json"))
}

#[test]
fn a_reused_number_and_a_process_that_moved_are_told_by_their_group_now() {
    let (dir, root, file) = contained();
    put(&dir.path().join(file), r#"{"Name":"/web"}"#);
    let mut workloads = Workloads::new(&root);
    let label = |workloads: &mut Workloads| workloads.of(7, at(0)).1.label();
    assert_eq!(label(&mut workloads).as_deref(), Some("web"));
    put(&dir.path().join("proc/7/cgroup"), "0::/system.slice/cron.service\n");
    assert_eq!(label(&mut workloads).as_deref(), Some("cron.service"));
    assert!(workloads.of(8, at(0)).1.is_unknown(), "no such process");
}

#[test]
fn a_missing_name_is_looked_for_again_but_not_at_once_nor_for_ever() {
    let (dir, root, file) = contained();
    let name = |workloads: &mut Workloads, second| workloads.of(7, at(second)).1.container.unwrap();
    let mut workloads = Workloads::new(&root);
    assert_eq!(name(&mut workloads, 100), "4507e58a9150");
    put(&dir.path().join(&file), r#"{"Name":"/web"}"#);
    assert_eq!(name(&mut workloads, 104), "4507e58a9150");
    assert_eq!(name(&mut workloads, 105), "web");
    // A name that is known is not read again while it is asked for.
    put(&dir.path().join(&file), r#"{"Name":"/other"}"#);
    assert_eq!(name(&mut workloads, 150), "web");
    assert_eq!(name(&mut workloads, 190), "web");
    assert_eq!(name(&mut workloads, 250), "other");

    put(&dir.path().join(&file), "");
    let mut workloads = Workloads::new(&root);
    for second in [0, 5, 10] {
        assert_eq!(name(&mut workloads, second), "4507e58a9150");
    }
    put(&dir.path().join(&file), r#"{"Name":"/web"}"#);
    assert_eq!(name(&mut workloads, 15), "4507e58a9150");
}

#[test]
fn the_runtimes_directories_are_listed_once_in_a_while() {
    let other = format!("{OUTER}\n");
    let groups = [("proc/7/cgroup", ID), ("proc/8/cgroup", other.trim_end())];
    let groups = groups.map(|(path, id)| (path, format!("0::/docker/{id}\n")));
    let files: Vec<(&str, &str)> = groups.iter().map(|(p, text)| (*p, text.as_str())).collect();
    let (dir, root) = tree(&files);
    let mut workloads = Workloads::new(&root);
    assert_eq!(workloads.of(7, at(1)).1.container.as_deref(), Some("4507e58a9150"));
    let link = format!("var/log/containers/web-0_shop_db-{OUTER}.log");
    put(&dir.path().join(link), "");
    assert_eq!(workloads.of(8, at(2)).1.pod, None, "the list is a second old");
    assert_eq!(workloads.of(8, at(7)).1.label().as_deref(), Some("shop/web-0:db"));
}

#[test]
fn what_is_gone_is_forgotten() {
    let (dir, root, _) = contained();
    let mut workloads = Workloads::new(&root);
    for number in 0..100 {
        let group = format!("0::/system.slice/a{number}.service\n");
        put(&dir.path().join("proc/7/cgroup"), &group);
        workloads.of(7, at(number));
    }
    workloads.of(7, at(120));
    assert_eq!(workloads.known.len(), 39, "those of the last minute");
    for number in 0..MOST_GROUPS {
        workloads.in_groups(&format!("0::/{number}\n"), at(121));
    }
    assert!(workloads.known.len() < MOST_GROUPS, "{}", workloads.known.len());
}

#[test]
fn files_of_another_form_name_nothing() {
    let (dir, root, docker) = contained();
    let storage = "var/lib/containers/storage/overlay-containers/containers.json".to_owned();
    let task = format!("run/containerd/io.containerd.runtime.v2.task/ns/{ID}/config.json");
    let long = format!(r#"{{"Name":"/{}"}}"#, "x".repeat(256));
    let huge = format!(r#"{{"Name":"/web","Path":"{}"}}"#, "x".repeat(5 << 20));
    let deep = format!(r#"{{"a":{}"#, "[".repeat(100_000));
    let texts =
        ["", "{", "null", "[]", "[1]", r#"{"Name":7}"#, r#"{"Name":""}"#, "{\"Name\":\"\u{7f}"];
    let of_others = [
        r#"[{"id":"ID"}]"#,
        r#"[{"id":"ID","names":[]}]"#,
        r#"[{"id":"ID","names":null}]"#,
        r#"{"annotations":{"nerdctl/name":1}}"#,
        r#"{"annotations":{"io.kubernetes.cri.sandbox-name":"web-0"}}"#,
        r#"{"annotations":[]}"#,
    ];
    let of_others = of_others.map(|text| text.replace("ID", ID));
    let texts = texts.into_iter().chain(of_others.iter().map(String::as_str));
    for text in texts.chain([long.as_str(), &huge, &deep]) {
        for path in [&docker, &storage, &task] {
            put(&dir.path().join(path), text);
        }
        let found = Workloads::new(&root).of(7, at(0)).1;
        let start = text.get(..40).unwrap_or(text);
        assert_eq!(found.container.as_deref(), Some("4507e58a9150"), "{start}");
        assert_eq!(found.pod, None, "{start}");
    }
    // Directories in the place of files, and files in that of directories.
    let (dir, root, _) = contained();
    for path in [&docker, &storage, &task] {
        put(&dir.path().join(path).join("file"), "");
    }
    put(&dir.path().join("var/log/pods"), "");
    assert_eq!(Workloads::new(&root).of(7, at(0)).1.container.as_deref(), Some("4507e58a9150"));
}

#[test]
fn this_process_is_told_without_an_error() {
    let root = SysRoot::live().unwrap();
    let found = Workloads::new(&root).of(std::process::id(), Duration::ZERO).1;
    let text = root.read("/proc/self/cgroup").into_value().unwrap();
    assert_eq!(found.unit.as_deref(), place(&text).unit);
}

proptest! {
    /// No text of a control group, name of a file or content of one is too much.
    #[test]
    fn no_text_panics(
        text in concat!(
            r"(([0-9]{0,2}:(name=systemd|memory|)?:)?",
            r"(/|pod|machine-|\\x|lxc|[a-f0-9_:-]{0,66}|\PC{0,4}|\.scope|\.slice){0,9}\n?){0,4}",
        ),
        name in r"(_|-|[a-z0-9]|\PC){0,40}",
        json in r#"(\{|\[|"Name"|"id"|"names"|"annotations"|:|,|"\PC{0,9}"|\]|\}){0,20}"#,
    ) {
        let place = place(&text);
        prop_assert!(place.unit.is_none_or(|unit| text.contains(unit)));
        let (dir, root) = tree(&[("proc/7/cgroup", &format!("0::/docker/{ID}\n{text}"))]);
        let name = name.replace(['/', '\0'], "");
        put(&dir.path().join(format!("var/log/containers/a{name}-{ID}.log")), "");
        put(&dir.path().join(format!("var/log/pods/a{name}/b")), "");
        put(&dir.path().join("var/lib/containers/storage/a-containers/containers.json"), &json);
        put(&dir.path().join(format!("var/lib/docker/containers/{ID}/config.v2.json")), &json);
        let found = Workloads::new(&root).of(7, Duration::ZERO).1;
        prop_assert!(found.container.is_none_or(|container| container.len() <= 255));
    }
}
