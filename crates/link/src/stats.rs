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
