//! Counters of a link.

/// Counters since the creation of the link.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LinkStats {
    /// Packets handed to the kernel.
    pub tx_packets: u64,
    /// Their bytes, BTH to ICRC.
    pub tx_bytes: u64,
    /// Messages (system calls' worth) that carried them.
    pub tx_messages: u64,
    /// Packets that the kernel refused for good (no route, interface down, too long).
    pub tx_refused: u64,
    /// The error number of the last of them; 0 if there was none.
    pub tx_refused_errno: u32,
    /// Errors of connected sockets; the packets then left by a shared one. ICMP errors of earlier packets are among them.
    pub tx_socket_errors: u64,
    /// The last of them; 0 if there was none.
    pub tx_socket_errno: u32,
    /// RoCE v1 packets lost because their destination did not resolve.
    pub tx_unresolved: u64,
    /// Packets whose payload was no longer mapped.
    pub tx_unmapped: u64,
    /// Packets that waited because the socket's buffer was full.
    pub tx_delayed: u64,
    /// Packets lost because too many waited already.
    pub tx_overflowed: u64,
    /// Packets received with a good ICRC.
    pub rx_packets: u64,
    /// Their bytes, BTH to ICRC.
    pub rx_bytes: u64,
    /// Messages (buffers filled) that brought them.
    pub rx_messages: u64,
    /// Packets dropped because the ICRC was wrong.
    pub rx_icrc_errors: u64,
    /// Packets dropped because their bytes do not parse.
    pub rx_malformed: u64,
    /// Packets dropped because they were for another process of this host and came merged with this one's.
    pub rx_misrouted: u64,
}

impl LinkStats {
    /// Counts packets that the kernel refused for good.
    pub(crate) fn on_refused(&mut self, packets: u64, error: &std::io::Error) {
        self.tx_refused += packets;
        self.tx_refused_errno = number(error);
    }

    /// Counts an error of a connected socket.
    pub(crate) fn on_socket_error(&mut self, error: &std::io::Error) {
        self.tx_socket_errors += 1;
        self.tx_socket_errno = number(error);
    }
}

fn number(error: &std::io::Error) -> u32 {
    error.raw_os_error().and_then(|number| number.try_into().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_error_has_a_number_of_its_own() {
        let mut stats = LinkStats::default();
        stats.on_refused(3, &std::io::Error::from_raw_os_error(libc::EPERM));
        stats.on_socket_error(&std::io::Error::from_raw_os_error(libc::ECONNREFUSED));
        assert_eq!((stats.tx_refused, stats.tx_refused_errno), (3, libc::EPERM as u32));
        assert_eq!((stats.tx_socket_errors, stats.tx_socket_errno), (1, libc::ECONNREFUSED as u32));
    }
}
