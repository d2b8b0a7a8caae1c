//! Conversion of datagram addresses between the manager and libibumad.

use weft_sm::io::{Global, Peer};

use weft_client::umad::{Address, Grh};

/// Converts a manager's address for libibumad.
pub fn address_of(peer: &Peer) -> Address {
    let grh = |global: Global| Grh {
        gid: global.gid,
        gid_index: global.sgid_index,
        hop_limit: global.hop_limit,
        traffic_class: global.traffic_class,
        flow_label: global.flow_label,
    };
    Address {
        qpn: peer.qpn,
        qkey: peer.qkey,
        lid: peer.lid,
        sl: peer.sl,
        path_bits: peer.path_bits,
        pkey_index: peer.pkey_index,
        grh: peer.global.map(grh),
    }
}

/// Converts a libibumad address for the manager.
pub fn peer_of(address: &Address) -> Peer {
    let global = |grh: Grh| Global {
        gid: grh.gid,
        sgid_index: grh.gid_index,
        flow_label: grh.flow_label,
        hop_limit: grh.hop_limit,
        traffic_class: grh.traffic_class,
    };
    Peer {
        lid: address.lid,
        qpn: address.qpn,
        qkey: address.qkey,
        pkey_index: address.pkey_index,
        sl: address.sl,
        path_bits: address.path_bits,
        global: address.grh.map(global),
    }
}
