//! The other end of a cable: whether the link runs at the width and speed that both ends support.

use super::session::{Asked, Session};
use super::show;
use crate::ib::address::{LID_PERMISSIVE, PortId};
use crate::ib::field::Field;
use crate::ib::fields::subn::{mlnx_ext_port_info as mlnx, port_info as fields};
use crate::ib::report::{End, Outcome, warn};

/// PortState of a link in use.
const ACTIVE: u64 = 4;
/// "All supported values", in each of the enabled fields.
const WIDTH_ANY: u64 = 255;
const SPEED_ANY: u64 = 15;
/// The vendor's speed between QDR and FDR.
const FDR10: u64 = 1;

/// Bits with their names, from best to worst.
type Ranks = &'static [(u64, &'static str)];

const WIDTHS: Ranks = &[(8, "12x"), (4, "8x"), (2, "4x"), (16, "2x"), (1, "1x")];
const SPEEDS: Ranks = &[(4, "10.0 Gbps"), (2, "5.0 Gbps"), (1, "2.5 Gbps")];
const SPEEDS_EXT: Ranks =
    &[(32, "212.5 Gbps"), (8, "106.25 Gbps"), (4, "53.125 Gbps"), (2, "25.78125 Gbps"), (1, "14.0625 Gbps")];

/// Queries and prints the other end, and warns if the link is below what both ends support.
pub fn compare(session: &mut Session<'_>, here: &Asked) -> Outcome<()> {
    if fields::LINK_STATE.value(&here.info) != ACTIVE {
        return Ok(());
    }
    let to = peer_of(session, here)?;
    let (mut peer, number) = session.node(&to)?;
    peer.number = number;
    session.print("Peer PortInfo:\n");
    show::ask(session, &mut peer)?;
    if peer.has_mlnx_ext {
        show::ask_mlnx_ext(session, &mut peer)?;
    } else {
        // Assumes that a peer without ExtendedPortInfo matches this end, as in the original.
        peer.mlnx_ext = here.mlnx_ext;
    }
    show::tell(session, &peer, "peer");
    if peer.has_mlnx_ext {
        show::tell_mlnx_ext(session, &peer, "peer");
    }
    for complaint in complaints(here, &peer) {
        warn(complaint.0, &complaint.1);
    }
    Ok(())
}

/// The address of the other end: one more hop, from the switch on if it has a LID.
fn peer_of(session: &Session<'_>, here: &Asked) -> Outcome<PortId> {
    let mut to = here.to;
    if to.lid != 0 {
        let own = session.line.common.own_port()?.ok_or_else(|| End::failed("could not resolve self"))?;
        to.dr_path.count = 0;
        to.dr_path.dr_slid = own.base_lid;
        to.dr_path.dr_dlid = LID_PERMISSIVE;
    }
    to.dr_path = to.dr_path.extended(here.number as u8).ok_or_else(|| End::failed("Too many hops"))?;
    Ok(to)
}

/// The link's shortcomings: the original's function name, and the text.
fn complaints(here: &Asked, peer: &Asked) -> Vec<(&'static str, String)> {
    let both = |enabled: Field, supported: Field, any: u64| {
        let of = |asked: &Asked| match enabled.value(&asked.info) {
            enabled if enabled == any => supported.value(&asked.info),
            enabled => enabled,
        };
        of(here) & of(peer)
    };
    let width = both(fields::LINK_WIDTH_ENABLED, fields::LINK_WIDTH_SUPPORTED, WIDTH_ANY);
    let speed = both(fields::LINK_SPEED_ENABLED, fields::LINK_SPEED_SUPPORTED, SPEED_ANY);
    let active = |field: Field| field.value(&here.info);
    let speed_active = active(fields::LINK_SPEED_ACTIVE);
    let mut all = vec![
        ("validate_width", less_than("width", WIDTHS, width, active(fields::LINK_WIDTH_ACTIVE))),
        ("validate_speed", less_than("speed", SPEEDS, speed, speed_active)),
    ];
    if here.extended_speeds.first && peer.extended_speeds.first {
        let enabled = |asked: &Asked| asked.extended_speeds.enabled(&asked.info);
        let (extended, active) = (enabled(here) & enabled(peer), here.extended_speeds.active(&here.info));
        all.push(("validate_extended_speed", less_than("extended speed", SPEEDS_EXT, extended, active)));
    } else {
        let has = |asked: &Asked, field: Field| field.value(&asked.mlnx_ext) & FDR10 != 0;
        let enabled = has(here, mlnx::LINK_SPEED_ENABLED) && has(peer, mlnx::LINK_SPEED_ENABLED);
        let slower = enabled && !has(here, mlnx::LINK_SPEED_ACTIVE);
        let text = format!("Peer ports operating at active speed {speed_active} rather than FDR10");
        all.push(("main", slower.then_some(text)));
    }
    all.into_iter().filter_map(|(function, text)| Some((function, text?))).collect()
}

/// The warning if the active value is not the best one of `both`.
fn less_than(what: &str, ranks: Ranks, both: u64, active: u64) -> Option<String> {
    let (best, name) = ranks.iter().find(|(bit, _)| both & bit != 0)?;
    let text = format!("Peer ports operating at active {what} {active} rather than {best} ({name})");
    (active != *best).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_below_what_both_allow_is_complained_about() {
        assert_eq!(
            less_than("width", WIDTHS, 3, 1).unwrap(),
            "Peer ports operating at active width 1 rather than 2 (4x)"
        );
        assert_eq!(less_than("width", WIDTHS, 3, 2), None);
        assert_eq!(less_than("width", WIDTHS, 0, 2), None);
        assert_eq!(
            less_than("extended speed", SPEEDS_EXT, 6, 2).unwrap(),
            "Peer ports operating at active extended speed 2 rather than 4 (53.125 Gbps)"
        );
        assert_eq!(
            less_than("extended speed", SPEEDS_EXT, 0x2f, 8).unwrap(),
            "Peer ports operating at active extended speed 8 rather than 32 (212.5 Gbps)"
        );
    }
}
