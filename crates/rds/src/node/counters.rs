//! Counters of a host.

/// Counters, since the host began.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct NodeCounters {
    /// Datagrams that programs sent.
    pub datagrams_sent: u64,
    /// Datagrams for sockets.
    pub datagrams_received: u64,
    /// Datagrams for ports without a socket.
    pub dropped_without_socket: u64,
    /// Pings that were answered.
    pub pings_answered: u64,
    /// Changes of a port's congestion.
    pub congestion_updates: u64,
    /// RDMA operations that programs sent.
    pub operations: u64,
    /// Bytes of completed WRITEs.
    pub written_bytes: u64,
    /// Bytes of completed READs.
    pub read_bytes: u64,
    /// Connections made.
    pub connections_made: u64,
    /// Connections lost.
    pub connections_lost: u64,
    /// Frames sent.
    pub frames_sent: u64,
    /// Frames received.
    pub frames_received: u64,
}

impl NodeCounters {
    /// Returns them with their names.
    pub fn named(&self) -> [(&'static str, u64); 12] {
        [
            ("datagrams_sent", self.datagrams_sent),
            ("datagrams_received", self.datagrams_received),
            ("recv_drop_no_sock", self.dropped_without_socket),
            ("recv_ping", self.pings_answered),
            ("cong_update_queued", self.congestion_updates),
            ("send_rdma", self.operations),
            ("send_rdma_bytes", self.written_bytes),
            ("recv_rdma_bytes", self.read_bytes),
            ("conn_made", self.connections_made),
            ("conn_reset", self.connections_lost),
            ("frames_sent", self.frames_sent),
            ("frames_received", self.frames_received),
        ]
    }
}
