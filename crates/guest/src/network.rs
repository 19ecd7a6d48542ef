//! The loopback device: a kernel boots with it down.
//!
//! ```text
//! RTM_NEWLINK (index 1, IFF_UP) ─▶ rtnetlink ─▶ lo is up and has 127.0.0.1
//!                                               (net/ipv4/devinet.c, inetdev_event)
//! ```

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

/// The loopback device's index in every network namespace (net/core/dev.c, `LOOPBACK_IFINDEX`).
const LO: u32 = 1;
/// `RTM_NEWLINK` of linux/rtnetlink.h.
const NEWLINK: u16 = 16;
/// `NLM_F_REQUEST | NLM_F_ACK` of linux/netlink.h.
const REQUEST_WITH_ANSWER: u16 = 1 | 4;
/// `NLMSG_ERROR` of linux/netlink.h: every answer to a request, an error of 0 means that it was
/// done.
const ANSWER: u16 = 2;
/// `IFF_UP` of linux/if.h.
const UP: u32 = 1;
/// `struct nlmsghdr` and `struct ifinfomsg`, in bytes.
const REQUEST: usize = 16 + 16;

/// Brings the loopback device up.
///
/// # Errors
/// The kernel's answer: it has no network, for one.
pub(crate) fn bring_lo_up() -> rustix::io::Result<()> {
    let socket = rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        // NETLINK_ROUTE is 0, the default.
        None,
    )?;
    let kernel = SocketAddrNetlink::new(0, 0);
    rustix::net::sendto(&socket, &request(), SendFlags::empty(), &kernel)?;
    let mut answer = [0; 256];
    let (length, _) = rustix::net::recv(&socket, &mut answer, RecvFlags::empty())?;
    result(answer.get(..length).unwrap_or(&answer))
}

/// The request: `nlmsghdr` (length, type, flags, sequence, port), then `ifinfomsg` (family, type,
/// index, flags, mask).
fn request() -> Vec<u8> {
    let mut bytes = Vec::with_capacity(REQUEST);
    bytes.extend((REQUEST as u32).to_ne_bytes());
    bytes.extend(NEWLINK.to_ne_bytes());
    bytes.extend(REQUEST_WITH_ANSWER.to_ne_bytes());
    bytes.extend([0; 8]);
    bytes.extend([0; 4]);
    for word in [LO, UP, UP] {
        bytes.extend(word.to_ne_bytes());
    }
    bytes
}

/// What an answer says: `nlmsghdr`, then the error, negative as in the kernel.
fn result(answer: &[u8]) -> rustix::io::Result<()> {
    let kind = answer.get(4..6).and_then(|bytes| Some(u16::from_ne_bytes(bytes.try_into().ok()?)));
    let error =
        answer.get(16..20).and_then(|bytes| Some(i32::from_ne_bytes(bytes.try_into().ok()?)));
    match (kind, error) {
        (Some(ANSWER), Some(0)) => Ok(()),
        (Some(ANSWER), Some(error)) => Err(Errno::from_raw_os_error(error.saturating_neg())),
        _ => Err(Errno::BADMSG),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_told_from_an_error_and_from_noise() {
        let answer = |kind: u16, error: i32| {
            let mut bytes = vec![36, 0, 0, 0];
            bytes.extend(kind.to_ne_bytes());
            bytes.extend([0; 10]);
            bytes.extend(error.to_ne_bytes());
            bytes
        };
        assert_eq!(result(&answer(ANSWER, 0)), Ok(()));
        assert_eq!(result(&answer(ANSWER, -1)), Err(Errno::PERM));
        assert_eq!(result(&answer(NEWLINK, 0)), Err(Errno::BADMSG));
        assert_eq!(result(&[]), Err(Errno::BADMSG));
        assert_eq!(request().len(), REQUEST);
    }
}
