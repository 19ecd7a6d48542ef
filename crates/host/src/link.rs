//! How fast the network link to a filesystem's server is: route → interface →
//! /sys/class/net/NAME/speed.
//!
//! The server's address comes from the mount's `addr=` option. A captured tree has no addresses;
//! there the only interface that is up must do.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use floodwall_model::Reading;
use floodwall_model::status::Link;

use crate::root::SysRoot;

/// The kernel prints megabits of 10^6 bits (include/uapi/linux/ethtool.h `speed`).
const BYTES_PER_MEGABIT: f64 = 1e6 / 8.0;
/// A route that may be used (include/uapi/linux/route.h `RTF_UP`).
const ROUTE_UP: u32 = 1;
/// A route that refuses (`RTF_REJECT`).
const ROUTE_REJECT: u32 = 0x200;

/// The link to an address; without one, that of the only interface that is up and tells its speed.
#[must_use]
pub(crate) fn read_link(root: &SysRoot, address: Option<&str>) -> Reading<Link> {
    let routed = address
        .and_then(|text| text.parse::<IpAddr>().ok())
        .and_then(|address| route(root, address));
    match routed {
        Some(interface) if interface == "lo" => {
            Reading::Absent("the server is reached through lo: it is this machine".to_owned())
        }
        Some(interface) => speed(root, &interface).map(|bytes_per_s| Link {
            interface,
            bytes_per_s,
            found_by: "the route to the server".to_owned(),
        }),
        None => sole_interface(root),
    }
}

fn speed(root: &SysRoot, interface: &str) -> Reading<f64> {
    // Virtual interfaces read -1 or fail with EINVAL (net/core/net-sysfs.c `speed_show`).
    match root.parse::<i64>(&format!("/sys/class/net/{interface}/speed")) {
        Reading::Value(megabits) if megabits > 0 => {
            Reading::Value(megabits as f64 * BYTES_PER_MEGABIT)
        }
        _ => Reading::Absent(format!("the interface {interface} does not tell its speed")),
    }
}

fn sole_interface(root: &SysRoot) -> Reading<Link> {
    root.list("/sys/class/net").and_then(|names| {
        let is_up = |name: &String| {
            let state = root.read_line(&format!("/sys/class/net/{name}/operstate"));
            state.value().is_some_and(|state| state == "up") && name != "lo"
        };
        let mut up = names.into_iter().filter(is_up);
        match (up.next(), up.next()) {
            (Some(interface), None) => speed(root, &interface).map(|bytes_per_s| Link {
                interface,
                bytes_per_s,
                found_by: "the only interface that is up".to_owned(),
            }),
            _ => Reading::Absent("the interface to the server is not known".to_owned()),
        }
    })
}

/// The interface of the route that the kernel takes to an address: the longest prefix, then the
/// smallest metric.
fn route(root: &SysRoot, address: IpAddr) -> Option<String> {
    match address {
        IpAddr::V4(address) => best(
            root.read("/proc/net/route").value()?.lines().skip(1).filter_map(|l| v4(l, address)),
        ),
        IpAddr::V6(address) => {
            best(root.read("/proc/net/ipv6_route").value()?.lines().filter_map(|l| v6(l, address)))
        }
    }
}

/// Prefix length, metric, interface of a route that covers the address.
type Candidate = (u32, u32, String);

fn best(candidates: impl Iterator<Item = Candidate>) -> Option<String> {
    candidates
        .min_by_key(|(prefix, metric, _)| (std::cmp::Reverse(*prefix), *metric))
        .map(|(.., interface)| interface)
}

/// /proc/net/route: interface, destination, gateway, flags, references, use, metric, mask …;
/// an address is printed as the native number whose bytes in memory are in network order
/// (net/ipv4/fib_trie.c `fib_route_seq_show`).
fn v4(line: &str, address: Ipv4Addr) -> Option<Candidate> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let number = |place: usize| u32::from_str_radix(words.get(place)?, 16).ok();
    let of_network = |word: u32| u32::from_be_bytes(word.to_ne_bytes());
    let (destination, flags, mask) = (of_network(number(1)?), number(3)?, of_network(number(7)?));
    let covers = u32::from(address) & mask == destination;
    let usable = flags & ROUTE_UP != 0 && flags & ROUTE_REJECT == 0;
    let metric = words.get(6)?.parse().ok()?;
    (covers && usable)
        .then(|| (mask.count_ones(), metric, (*words.first().unwrap_or(&"")).to_owned()))
}

/// /proc/net/ipv6_route: destination, its prefix, source, its prefix, next hop, metric, references,
/// use, flags, interface; all but the interface in hexadecimal (net/ipv6/ip6_fib.c
/// `ipv6_route_native_seq_show`).
fn v6(line: &str, address: Ipv6Addr) -> Option<Candidate> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let destination = u128::from_str_radix(words.first()?, 16).ok()?;
    let number = |place: usize| u32::from_str_radix(words.get(place)?, 16).ok();
    let (prefix, metric, flags) = (number(1)?.min(128), number(5)?, number(8)?);
    let mask = u128::MAX.checked_shl(128 - prefix).unwrap_or(0);
    let covers = u128::from(address) & mask == destination & mask;
    let usable = flags & ROUTE_UP != 0 && flags & ROUTE_REJECT == 0;
    (covers && usable).then(|| (prefix, metric, (*words.get(9).unwrap_or(&"")).to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::testing::tree;

    #[cfg(target_endian = "little")]
    const ROUTES: &str = "Iface\tDestination\tGateway \
        \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
        eth0\t00000000\t010200C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n\
        eth1\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n\
        lo\t0000007F\t00000000\t0001\t0\t0\t0\t000000FF\t0\t0\t0\n";

    #[cfg(target_endian = "little")]
    #[test]
    fn the_longest_prefix_wins() {
        let (_dir, root) = tree(&[
            ("proc/net/route", ROUTES),
            ("sys/class/net/eth0/speed", "1000\n"),
            ("sys/class/net/eth1/speed", "10000\n"),
        ]);
        // 192.0.2.0/24 is eth1's, everything else eth0's.
        let near = read_link(&root, Some("192.0.2.7")).into_value().unwrap();
        assert_eq!((near.interface.as_str(), near.bytes_per_s), ("eth1", 1.25e9));
        let far = read_link(&root, Some("198.51.100.1")).into_value().unwrap();
        assert_eq!((far.interface.as_str(), far.bytes_per_s), ("eth0", 125e6));
        assert!(read_link(&root, Some("127.0.0.1")).why().unwrap().contains("this machine"));
    }

    #[test]
    fn version_6_has_a_file_of_its_own() {
        let zero = "0".repeat(32);
        let lines = format!(
            "20010db8000000000000000000000000 20 {zero} 00 {zero} 00000400 00000001 00000000 \
             00000001 eth1\n\
             {zero} 00 {zero} 00 {zero} 00000400 00000001 00000000 00000003 eth0\n\
             {zero} 00 {zero} 00 {zero} ffffffff 00000001 00000000 00200200 lo\n"
        );
        let (_dir, root) = tree(&[
            ("proc/net/ipv6_route", &lines),
            ("sys/class/net/eth0/speed", "-1\n"),
            ("sys/class/net/eth1/speed", "2500\n"),
        ]);
        let near = read_link(&root, Some("2001:db8::5")).into_value().unwrap();
        assert_eq!((near.interface.as_str(), near.bytes_per_s), ("eth1", 312.5e6));
        assert_eq!(
            read_link(&root, Some("2001:db9::5")),
            Reading::Absent("the interface eth0 does not tell its speed".into())
        );
    }

    #[test]
    fn without_an_address_only_a_sole_interface_will_do() {
        let up = ("sys/class/net/eth0/operstate", "up\n");
        let speed = ("sys/class/net/eth0/speed", "1000\n");
        let (_dir, root) = tree(&[up, speed, ("sys/class/net/lo/operstate", "up\n")]);
        assert_eq!(read_link(&root, None).into_value().unwrap().interface, "eth0");
        let (_dir, root) = tree(&[up, speed, ("sys/class/net/eth1/operstate", "up\n")]);
        assert!(read_link(&root, None).why().unwrap().contains("not known"));
        let (_dir, root) = tree(&[]);
        assert!(matches!(read_link(&root, None), Reading::Absent(_)));
    }
}
