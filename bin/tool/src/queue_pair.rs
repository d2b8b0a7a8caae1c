//! Names of a queue pair's attributes, as iproute2's `rdma resource show qp` prints them.

/// Formats a GID as an address; IPv4-mapped ones as IPv4.
pub fn address(gid: [u8; 16]) -> String {
    let v6 = std::net::Ipv6Addr::from(gid);
    v6.to_ipv4_mapped().map_or_else(|| v6.to_string(), |v4| v4.to_string())
}

/// Names of `enum ib_qp_type` values.
pub fn type_name(number: u8) -> &'static str {
    match number {
        2 => "RC",
        3 => "UC",
        4 => "UD",
        9 => "XRC_INI",
        10 => "XRC_TGT",
        _ => "UNKNOWN",
    }
}

/// Names of `enum ibv_qp_state` values.
pub fn state_name(number: u8) -> &'static str {
    const STATES: [&str; 7] = ["RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"];
    STATES.get(usize::from(number)).copied().unwrap_or("UNKNOWN")
}
