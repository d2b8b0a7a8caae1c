//! The receive path: the shared sockets of port 4791 that the daemon handed out, one for IPv4 and one for IPv6, and the
//! flow socket of a flow that earned one ([`crate::flow_socket`]). They are read without sleeping into a few large
//! buffers that are reused. Reading an empty socket costs a system call, so a socket without recent arrivals is read
//! more rarely than the one in use.
//!
//! A flow's packets may be in two of the sockets: when the flow gets or loses its flow socket, and when its sender
//! changes its port. Read out of order they would break a UC message. So the flow socket is emptied before a shared
//! socket in which something waits; and the shared sockets are emptied before the first message of a newly attached
//! flow socket.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use weft_sys::epoll;
use weft_sys::roce_port::{self, Family, ROCE_V2_UDP_PORT};
use weft_sys::udp::Inbox;

use crate::flow_socket::FlowSocket;
use crate::handler::Each;
use crate::rx_socket::RxSocket;
use crate::stats::LinkStats;

/// Number of buffers, of 64 KiB each.
const RECEIVE_BUFFERS: usize = 8;
/// A family without recent arrivals is read once in this many receives.
const COLD_PERIOD: u32 = 64;
/// Both families are read once in this many, while a flow has its flow socket.
const SHARED_PERIOD: u32 = 16;
/// Receives after the last packet for which a socket counts as in use.
const WARM_RECEIVES: u32 = 4096;
/// Maximum number of receives to empty a socket.
const EMPTYING_MAX: usize = 1 << 12;

/// Receives datagrams.
#[derive(Debug)]
pub struct Receiver {
    v4: Option<RxSocket>,
    v6: Option<RxSocket>,
    flow_socket: FlowSocket,
    tick: u32,
    inbox: Inbox,
}

impl Receiver {
    /// Makes a receiver with sockets bound to port 4791.
    pub fn new(v4: Option<OwnedFd>, v6: Option<OwnedFd>) -> Receiver {
        Receiver {
            v4: v4.map(RxSocket::new),
            v6: v6.map(RxSocket::new),
            flow_socket: FlowSocket::new(ROCE_V2_UDP_PORT),
            tick: 0,
            inbox: Inbox::new(RECEIVE_BUFFERS),
        }
    }

    /// Returns the socket for IPv4.
    pub fn v4(&self) -> Option<BorrowedFd<'_>> {
        self.v4.as_ref().map(|s| s.fd.as_fd())
    }

    /// Returns the socket for IPv6.
    pub fn v6(&self) -> Option<BorrowedFd<'_>> {
        self.v6.as_ref().map(|s| s.fd.as_fd())
    }

    /// Whether packets may arrive outside the shared sockets.
    #[inline]
    pub fn is_attached(&self) -> bool {
        self.flow_socket.is_attached()
    }

    /// Enables traffic class and hop limit with packets from now on. A kernel that refuses leaves them at their
    /// defaults.
    pub fn learn_network_header(&mut self) {
        for (socket, family) in [(&self.v4, Family::V4), (&self.v6, Family::V6)] {
            if let Some(socket) = socket {
                let _ = roce_port::describe_network_header(&socket.fd, family);
            }
        }
        self.flow_socket.learn_network_header();
    }

    /// Receives some of the waiting messages, without sleeping; returns how many datagrams came. `thorough` reads every
    /// socket regardless of recent arrivals, for a thread that slept until a shared socket was readable, and will sleep
    /// again if nothing comes. Otherwise the caller is a polling thread.
    pub fn receive(&mut self, thorough: bool, stats: &mut LinkStats, each: &mut impl Each) -> usize {
        self.tick = self.tick.wrapping_add(1);
        let mut count = self.receive_aimed(stats, each);
        let looks = self.looks(thorough);
        let mut readable = looks;
        if self.flow_socket.precedes_shared() {
            readable = self.readable(looks);
            let any = readable.contains(&true);
            if any || thorough && !self.flow_socket.is_attached() {
                count += self.empty_flow_socket(stats, each);
            }
            if any && !self.flow_socket.is_attached() {
                self.flow_socket.end_detached();
            }
        }
        let (mut earned, flow_socket) = (false, &mut self.flow_socket);
        for (nth, socket) in [&mut self.v4, &mut self.v6].into_iter().enumerate() {
            let Some(socket) = socket.as_mut().filter(|_| looks[nth]) else { continue };
            let came = match readable[nth] {
                true => socket.read(&mut self.inbox, None, stats, each, |flow| earned |= flow_socket.on_shared(flow)),
                false => 0,
            };
            warm(socket, came);
            count += came;
        }
        if thorough && count == 0 {
            count += self.detach(stats, each);
        } else if earned && !thorough {
            count += self.attach(stats, each);
        }
        count
    }

    /// Returns which shared sockets to read this time: IPv4's, IPv6's.
    fn looks(&self, thorough: bool) -> [bool; 2] {
        let attached = self.flow_socket.is_attached();
        let all =
            thorough || self.tick.is_multiple_of(COLD_PERIOD) || attached && self.tick.is_multiple_of(SHARED_PERIOD);
        let [v4, v6] = [&self.v4, &self.v6].map(|socket| socket.as_ref().map(|s| s.warm > 0));
        let v6_alone = v6 == Some(true) && v4 != Some(true);
        [v4.is_some_and(|warm| warm || all || !(v6_alone || attached)), v6.is_some_and(|warm| warm || all)]
    }

    /// Returns which of these shared sockets hold messages.
    fn readable(&self, looks: [bool; 2]) -> [bool; 2] {
        match (looks, self.v4(), self.v6()) {
            ([true, true], Some(v4), Some(v6)) => epoll::readable([v4, v6]),
            ([true, _], Some(v4), _) => [epoll::readable([v4])[0], false],
            ([_, true], _, Some(v6)) => [false, epoll::readable([v6])[0]],
            _ => [false, false],
        }
    }

    /// Reads the flow socket.
    #[inline]
    fn receive_aimed(&mut self, stats: &mut LinkStats, each: &mut impl Each) -> usize {
        let (mut came, mut waits) = (0, true);
        if let Some(fd) = self.flow_socket.fresh() {
            [waits] = epoll::readable([fd]);
            if waits {
                came += self.empty_shared(stats, each);
                self.flow_socket.end_fresh();
            }
        }
        let Some((socket, flow)) = self.flow_socket.attached() else { return 0 };
        let misrouted = stats.rx_misrouted;
        if waits {
            came += socket.read(&mut self.inbox, Some(&flow), stats, each, |_| {});
        }
        warm(socket, came);
        if stats.rx_misrouted != misrouted {
            came += self.detach(stats, each);
            self.flow_socket.give_up();
        } else if socket.warm == 0 {
            came += self.detach(stats, each);
        }
        came
    }

    /// Gives the flow socket to the flow that earned it, and reads the flow's messages so far.
    #[cold]
    fn attach(&mut self, stats: &mut LinkStats, each: &mut impl Each) -> usize {
        // The flow socket may still hold messages of an earlier flow.
        let mut count = self.empty_flow_socket(stats, each);
        self.flow_socket.end_detached();
        if !self.flow_socket.attach() {
            return count;
        }
        count += self.empty_shared(stats, each);
        for socket in [&mut self.v4, &mut self.v6].into_iter().flatten() {
            socket.warm = 0;
        }
        if let Some((socket, _)) = self.flow_socket.attached() {
            socket.warm = WARM_RECEIVES;
        }
        count
    }

    /// Reads everything in the shared sockets.
    #[cold]
    fn empty_shared(&mut self, stats: &mut LinkStats, each: &mut impl Each) -> usize {
        let sockets = [&mut self.v4, &mut self.v6].into_iter().flatten();
        sockets.map(|socket| empty(socket, |socket| socket.read(&mut self.inbox, None, stats, each, |_| {}))).sum()
    }

    /// Reads everything in the flow socket.
    #[cold]
    fn empty_flow_socket(&mut self, stats: &mut LinkStats, each: &mut impl Each) -> usize {
        let Some((socket, flow)) = self.flow_socket.holds() else { return 0 };
        empty(socket, |socket| socket.read(&mut self.inbox, Some(&flow), stats, each, |_| {}))
    }

    /// Takes the flow socket from its flow, and reads the messages in it so far.
    #[cold]
    fn detach(&mut self, stats: &mut LinkStats, each: &mut impl Each) -> usize {
        let inbox = &mut self.inbox;
        self.flow_socket
            .detach(|socket, flow| empty(socket, |socket| socket.read(inbox, Some(flow), stats, each, |_| {})))
    }
}

/// Restarts the countdown to a cold socket after arrivals; otherwise counts down.
#[inline]
fn warm(socket: &mut RxSocket, came: usize) {
    socket.warm = match came {
        0 => socket.warm.saturating_sub(1),
        _ => WARM_RECEIVES,
    };
}

fn empty(socket: &mut RxSocket, mut read: impl FnMut(&mut RxSocket) -> usize) -> usize {
    (0..EMPTYING_MAX).map(|_| read(socket)).take_while(|&came| came > 0).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datagram::Datagram;
    use std::net::{SocketAddr, UdpSocket};
    use weft_sys::sockopt::set_int;
    use weft_sys::udp::Incoming;

    /// Messages of one flow before the one that earns it its flow socket.
    const MESSAGES_BEFORE_INLET: u8 = 63;

    /// Receives; returns the source port and first byte of each datagram.
    fn polled(receiver: &mut Receiver, stats: &mut LinkStats, thorough: bool) -> Vec<(u16, u8)> {
        let mut came = Vec::new();
        receiver.receive(thorough, stats, &mut |d: &Datagram<'_>, stats: &mut LinkStats| {
            assert_eq!((d.src, d.dst), ([127, 0, 0, 1].into(), [127, 0, 0, 1].into()));
            assert_eq!(d.ifindex, 1, "as the first message told");
            // As the stack counts packets of other processes.
            stats.rx_misrouted += u64::from(d.ib == [99]);
            came.push((d.sport, d.ib[0]));
        });
        came
    }

    /// A receiver at a port of its own, and two senders to it.
    fn host() -> (Receiver, SocketAddr, [UdpSocket; 2]) {
        let here = SocketAddr::from(([127, 0, 0, 1], 0));
        let shared = roce_port::portless(Family::V4).unwrap();
        const SO_REUSEPORT: i32 = 15;
        const IP_PKTINFO: i32 = 8;
        set_int(&shared, 1, SO_REUSEPORT, 1).unwrap();
        set_int(&shared, 0, IP_PKTINFO, 1).unwrap();
        let port = weft_sys::udp::bind_any(&shared, Family::V4, weft_sys::random::u64() as u32).unwrap();
        let at = SocketAddr::new(here.ip(), port);
        let mut receiver = Receiver::new(Some(shared), None);
        receiver.flow_socket = FlowSocket::new(port);
        (receiver, at, [(); 2].map(|()| UdpSocket::bind(here).unwrap()))
    }

    fn say(from: &UdpSocket, to: SocketAddr, byte: u8) -> (u16, u8) {
        from.send_to(&[byte], to).unwrap();
        (from.local_addr().unwrap().port(), byte)
    }

    #[test]
    fn nothing_is_lost_or_overtaken_while_a_flow_gets_and_loses_its_socket() {
        let (mut receiver, at, [a, b]) = host();
        let mut stats = LinkStats::default();
        for byte in (0..90).chain(0..90) {
            // Some wait while it is attached.
            let sent = [say(&a, at, byte), say(&a, at, byte)];
            let mut came = Vec::new();
            for _ in 0..4 {
                came.extend(polled(&mut receiver, &mut stats, false));
            }
            assert_eq!(came, sent);
        }
        assert!(receiver.flow_socket.is_attached());
        // Other flows are read soon.
        let (first, second) = (say(&b, at, 1), say(&a, at, 2));
        let mut came: Vec<_> = (0..2 * SHARED_PERIOD).flat_map(|_| polled(&mut receiver, &mut stats, false)).collect();
        came.sort_unstable();
        let mut sent = [first, second];
        sent.sort_unstable();
        assert_eq!(came, sent);
        // A thread is about to sleep.
        let last = say(&a, at, 3);
        assert_eq!(polled(&mut receiver, &mut stats, true), [last]);
        assert!(receiver.flow_socket.is_attached());
        assert!(polled(&mut receiver, &mut stats, true).is_empty());
        assert!(!receiver.flow_socket.is_attached());
        let after = say(&a, at, 4);
        assert_eq!(polled(&mut receiver, &mut stats, true), [after]);
    }

    #[test]
    fn a_sender_that_goes_on_from_another_port_is_not_overtaken_by_itself() {
        let (mut receiver, at, [a, b]) = host();
        let mut stats = LinkStats::default();
        for _ in 0..2 * SHARED_PERIOD {
            for byte in 0..90 {
                let sent = say(&a, at, byte);
                assert_eq!(polled(&mut receiver, &mut stats, false), [sent]);
            }
            assert!(receiver.flow_socket.is_attached());
            let mut sent: Vec<_> = (0..20).map(|byte| say(&a, at, byte)).collect();
            sent.extend((20..30).map(|byte| say(&b, at, byte)));
            let mut came = Vec::new();
            while came.len() < sent.len() {
                came.extend(polled(&mut receiver, &mut stats, false));
            }
            assert_eq!(came, sent);
            // Each round begins at a different one of the receives that read the shared sockets.
            assert!(polled(&mut receiver, &mut stats, true).is_empty() && !receiver.flow_socket.is_attached());
        }
    }

    #[test]
    fn what_comes_to_another_socket_than_its_successors_is_read_before_them() {
        let (mut receiver, at, [a, _]) = host();
        let mut stats = LinkStats::default();
        let sport = a.local_addr().unwrap().port();
        for byte in 0..MESSAGES_BEFORE_INLET {
            say(&a, at, byte);
            polled(&mut receiver, &mut stats, false);
        }
        assert!(!receiver.flow_socket.is_attached());
        say(&a, at, 100);
        let mut came = polled(&mut receiver, &mut stats, false);
        assert!(receiver.flow_socket.is_attached());
        // As if it had been in transit while the flow socket was attached: told to rest, and attached again without the
        // receiver's knowledge.
        let fd = &receiver.flow_socket.fresh().expect("nothing came since").try_clone_to_owned().unwrap();
        let flow = Incoming { src: at.ip(), sport, dst: at.ip(), ifindex: 1 };
        weft_sys::udp::detach(fd, at.port(), at.ip()).unwrap();
        let late = say(&a, at, 101);
        weft_sys::udp::attach(fd, &flow).unwrap();
        let next = say(&a, at, 102);
        came.clear();
        while came.len() < 2 {
            came.extend(polled(&mut receiver, &mut stats, false));
        }
        assert_eq!(came, [late, next]);
        // The same while it was told to rest.
        assert!(polled(&mut receiver, &mut stats, true).is_empty() && !receiver.flow_socket.is_attached());
        for thorough in [false, true] {
            weft_sys::udp::attach(fd, &flow).unwrap();
            let late = say(&a, at, 103);
            weft_sys::udp::detach(fd, at.port(), at.ip()).unwrap();
            if thorough {
                assert_eq!(polled(&mut receiver, &mut stats, true), [late], "nobody waits for a successor");
            } else {
                let next = say(&a, at, 104);
                assert_eq!(polled(&mut receiver, &mut stats, false), [late, next]);
                receiver.flow_socket.detach_again(flow);
            }
        }
    }

    #[test]
    fn messages_that_are_looked_at_come_once_each_whatever_follows() {
        let (mut receiver, at, [a, _]) = host();
        let mut stats = LinkStats::default();
        let sport = a.local_addr().unwrap().port();
        let say = |byte: u8, len: usize| {
            a.send_to(&vec![byte; len], at).unwrap();
            (sport, byte)
        };
        for byte in 0..90 {
            let sent = say(byte, 1);
            assert_eq!(polled(&mut receiver, &mut stats, false), [sent]);
        }
        assert!(receiver.flow_socket.is_attached());
        // Longer than a peek; more than one at once; a sleep after a peeked one.
        for (byte, len) in [(1, 1), (2, 40), (3, 128), (4, 129), (5, 5000), (6, 1)] {
            let sent = say(byte, len);
            assert_eq!(polled(&mut receiver, &mut stats, false), [sent]);
        }
        for _ in 0..20 {
            let sent = say(7, 1);
            assert_eq!(polled(&mut receiver, &mut stats, false), [sent]);
        }
        let sent = [8, 9, 10].map(|byte| say(byte, 1));
        let came: Vec<_> = (0..4).flat_map(|_| polled(&mut receiver, &mut stats, false)).collect();
        assert_eq!(came, sent);
        let sent = say(11, 1);
        assert_eq!(polled(&mut receiver, &mut stats, false), [sent]);
        let sent = say(12, 1);
        assert_eq!(polled(&mut receiver, &mut stats, true), [sent]);
        assert!(polled(&mut receiver, &mut stats, true).is_empty());
        assert!(!receiver.flow_socket.is_attached());
        let sent = say(13, 1);
        assert_eq!(polled(&mut receiver, &mut stats, true), [sent]);
    }

    #[test]
    fn a_flow_socket_that_takes_what_is_for_others_is_given_up() {
        let (mut receiver, at, [a, _]) = host();
        let mut stats = LinkStats::default();
        let mut exchange = |byte| {
            let sent = say(&a, at, byte);
            assert_eq!(polled(&mut receiver, &mut stats, false), [sent]);
            receiver.flow_socket.is_attached()
        };
        assert!((0..90).map(&mut exchange).collect::<Vec<_>>()[89]);
        assert!(!exchange(99));
        assert!((0..90).all(|byte| !exchange(byte)), "and not given again");
    }

    #[test]
    fn a_flow_whose_socket_cannot_detach_comes_by_the_shared_socket_and_earns_another() {
        let (mut receiver, at, [a, _]) = host();
        let mut stats = LinkStats::default();
        for _ in 0..3 {
            for byte in 0..90 {
                let sent = say(&a, at, byte);
                assert_eq!(polled(&mut receiver, &mut stats, false), [sent]);
            }
            assert!(receiver.flow_socket.is_attached());
            receiver.flow_socket.lose_address();
            assert!(receiver.detach(&mut stats, &mut |_, _| ()) == 0 && !receiver.flow_socket.is_attached());
            let sent = say(&a, at, 90);
            assert_eq!(polled(&mut receiver, &mut stats, true), [sent]);
        }
    }

    #[test]
    fn a_flow_that_went_quiet_has_no_socket() {
        let (mut receiver, at, [a, _]) = host();
        let mut stats = LinkStats::default();
        for byte in 0..90 {
            say(&a, at, byte);
            assert_eq!(polled(&mut receiver, &mut stats, false).len(), 1);
        }
        for _ in 0..WARM_RECEIVES {
            assert!(receiver.flow_socket.is_attached());
            assert!(polled(&mut receiver, &mut stats, false).is_empty());
        }
        assert!(!receiver.flow_socket.is_attached());
    }
}
