//! The names that `ibv_devinfo` prints for verbs' numeric values.

use std::net::Ipv6Addr;

use weft_abi_types::*;

/// Transport.
pub fn transport(value: ibv_transport_type) -> &'static str {
    match value {
        IBV_TRANSPORT_IB => "InfiniBand",
        IBV_TRANSPORT_IWARP => "iWARP",
        IBV_TRANSPORT_USNIC => "usNIC",
        IBV_TRANSPORT_USNIC_UDP => "usNIC UDP",
        IBV_TRANSPORT_UNSPECIFIED => "unspecified",
        _ => "invalid transport",
    }
}

/// Atomicity.
pub fn atomic_cap(value: ibv_atomic_cap) -> &'static str {
    match value {
        IBV_ATOMIC_NONE => "ATOMIC_NONE",
        IBV_ATOMIC_HCA => "ATOMIC_HCA",
        IBV_ATOMIC_GLOB => "ATOMIC_GLOB",
        _ => "invalid atomic capability",
    }
}

/// Logical state of a port.
pub fn port_state(value: ibv_port_state) -> &'static str {
    match value {
        IBV_PORT_DOWN => "PORT_DOWN",
        IBV_PORT_INIT => "PORT_INIT",
        IBV_PORT_ARMED => "PORT_ARMED",
        IBV_PORT_ACTIVE => "PORT_ACTIVE",
        _ => "invalid state",
    }
}

/// Physical state of a port.
pub fn phys_state(value: u8) -> &'static str {
    match value {
        1 => "SLEEP",
        2 => "POLLING",
        3 => "DISABLED",
        // The original's spelling, which scripts match.
        4 => "PORT_CONFIGURATION TRAINNING",
        5 => "LINK_UP",
        6 => "LINK_ERROR_RECOVERY",
        7 => "PHY TEST",
        _ => "invalid physical state",
    }
}

/// Path MTU.
pub fn mtu(value: ibv_mtu) -> &'static str {
    match value {
        IBV_MTU_256 => "256",
        IBV_MTU_512 => "512",
        IBV_MTU_1024 => "1024",
        IBV_MTU_2048 => "2048",
        IBV_MTU_4096 => "4096",
        _ => "invalid MTU",
    }
}

/// Link width in lanes.
pub fn width(value: u8) -> &'static str {
    match value {
        1 => "1",
        2 => "4",
        4 => "8",
        8 => "12",
        16 => "2",
        _ => "invalid width",
    }
}

/// Speed per lane.
pub fn speed(value: u32) -> &'static str {
    match value {
        1 => "2.5 Gbps",
        2 => "5.0 Gbps",
        4 | 8 => "10.0 Gbps",
        16 => "14.0 Gbps",
        32 => "25.0 Gbps",
        64 => "50.0 Gbps",
        128 => "100.0 Gbps",
        256 => "200.0 Gbps",
        _ => "invalid speed",
    }
}

/// Virtual lanes.
pub fn virtual_lanes(value: u8) -> &'static str {
    match value {
        1 => "1",
        2 => "2",
        3 => "4",
        4 => "8",
        5 => "15",
        _ => "invalid value",
    }
}

/// Link layer.
pub fn link_layer(value: u8) -> &'static str {
    match u32::from(value) {
        IBV_LINK_LAYER_UNSPECIFIED => "Unspecified",
        IBV_LINK_LAYER_INFINIBAND => "InfiniBand",
        IBV_LINK_LAYER_ETHERNET => "Ethernet",
        _ => "Unknown",
    }
}

/// Bits of `device_cap_flags`, in the order in which they are printed.
pub const DEVICE_CAPS: &[(u32, &str)] = &[
    (IBV_DEVICE_RESIZE_MAX_WR, "RESIZE_MAX_WR"),
    (IBV_DEVICE_BAD_PKEY_CNTR, "BAD_PKEY_CNTR"),
    (IBV_DEVICE_BAD_QKEY_CNTR, "BAD_QKEY_CNTR"),
    (IBV_DEVICE_RAW_MULTI, "RAW_MULTI"),
    (IBV_DEVICE_AUTO_PATH_MIG, "AUTO_PATH_MIG"),
    (IBV_DEVICE_CHANGE_PHY_PORT, "CHANGE_PHY_PORT"),
    (IBV_DEVICE_UD_AV_PORT_ENFORCE, "UD_AV_PORT_ENFORCE"),
    (IBV_DEVICE_CURR_QP_STATE_MOD, "CURR_QP_STATE_MOD"),
    (IBV_DEVICE_SHUTDOWN_PORT, "SHUTDOWN_PORT"),
    (IBV_DEVICE_INIT_TYPE, "INIT_TYPE"),
    (IBV_DEVICE_PORT_ACTIVE_EVENT, "PORT_ACTIVE_EVENT"),
    (IBV_DEVICE_SYS_IMAGE_GUID, "SYS_IMAGE_GUID"),
    (IBV_DEVICE_RC_RNR_NAK_GEN, "RC_RNR_NAK_GEN"),
    (IBV_DEVICE_SRQ_RESIZE, "SRQ_RESIZE"),
    (IBV_DEVICE_N_NOTIFY_CQ, "N_NOTIFY_CQ"),
    (IBV_DEVICE_MEM_WINDOW, "MEM_WINDOW"),
    (IBV_DEVICE_UD_IP_CSUM, "UD_IP_CSUM"),
    (IBV_DEVICE_XRC, "XRC"),
    (IBV_DEVICE_MEM_MGT_EXTENSIONS, "MEM_MGT_EXTENSIONS"),
    (IBV_DEVICE_MEM_WINDOW_TYPE_2A, "MEM_WINDOW_TYPE_2A"),
    (IBV_DEVICE_MEM_WINDOW_TYPE_2B, "MEM_WINDOW_TYPE_2B"),
    (IBV_DEVICE_RC_IP_CSUM, "RC_IP_CSUM"),
    (IBV_DEVICE_RAW_IP_CSUM, "RAW_IP_CSUM"),
    (IBV_DEVICE_MANAGED_FLOW_STEERING, "MANAGED_FLOW_STEERING"),
];

/// Bits of the on-demand paging capabilities of a transport.
pub const ODP_CAPS: &[(u32, &str)] = &[
    (IBV_ODP_SUPPORT_SEND, "SUPPORT_SEND"),
    (IBV_ODP_SUPPORT_RECV, "SUPPORT_RECV"),
    (IBV_ODP_SUPPORT_WRITE, "SUPPORT_WRITE"),
    (IBV_ODP_SUPPORT_READ, "SUPPORT_READ"),
    (IBV_ODP_SUPPORT_ATOMIC, "SUPPORT_ATOMIC"),
    (IBV_ODP_SUPPORT_SRQ_RECV, "SUPPORT_SRQ"),
];

/// Bits of `raw_packet_caps`.
pub const RAW_PACKET_CAPS: &[(u32, &str)] = &[
    (IBV_RAW_PACKET_CAP_CVLAN_STRIPPING, "C-VLAN stripping offload"),
    (IBV_RAW_PACKET_CAP_SCATTER_FCS, "Scatter FCS offload"),
    (IBV_RAW_PACKET_CAP_IP_CSUM, "IP csum offload"),
    (IBV_RAW_PACKET_CAP_DELAY_DROP, "Delay drop"),
];

/// A GID as glibc's inet_ntop writes it.
pub fn gid(raw: &[u8; 16]) -> String {
    // ::a.b.c.d is deprecated: Rust prints it in hexadecimal, glibc in dotted form.
    if raw[..12] == [0; 12] && raw[12..14] != [0; 2] {
        return format!("::{}.{}.{}.{}", raw[12], raw[13], raw[14], raw[15]);
    }
    Ipv6Addr::from(*raw).to_string()
}

/// A GID as eight groups of four digits.
pub fn gid_long(raw: &[u8; 16]) -> String {
    let groups: Vec<String> =
        raw.chunks(2).map(|pair| pair.iter().map(|byte| format!("{byte:02x}")).collect()).collect();
    groups.join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gids_are_written_as_inet_ntop_does() {
        let text = |s: &str| gid(&s.parse::<Ipv6Addr>().unwrap().octets());
        assert_eq!(text("::ffff:10.77.0.1"), "::ffff:10.77.0.1");
        assert_eq!(text("fe80::5054:ff:fe77:1"), "fe80::5054:ff:fe77:1");
        assert_eq!(text("::1"), "::1");
        assert_eq!(text("::"), "::");
        assert_eq!(text("::1.2.3.4"), "::1.2.3.4");
    }

    #[test]
    fn long_gids_have_eight_groups() {
        let raw = "::ffff:10.77.0.1".parse::<Ipv6Addr>().unwrap().octets();
        assert_eq!(gid_long(&raw), "0000:0000:0000:0000:0000:ffff:0a4d:0001");
    }
}
