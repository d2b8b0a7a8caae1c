//! Selection of adapter and port when a program leaves one of them open.

use libc::{ENODEV, c_int};

use crate::adapter::{Ca, NODE_TYPE_SWITCH, Port};
use crate::source;

const STATE_ACTIVE: u32 = 4;
const PHYS_DISABLED: u32 = 3;
const PHYS_LINK_UP: u32 = 5;

/// An adapter's name and a port's number.
pub(crate) type Place = (Vec<u8>, c_int);

/// Suitability of a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fit {
    /// Its link is not active; the program decides whether to use it.
    Usable,
    /// Its link is active.
    Active,
}

/// Returns the selected place: `name` if given, and the port if it is not 0. Otherwise the first active port, else the
/// first whose link is up, else the first that is not disabled. With `smi`, ports without subnet management do not
/// count.
pub(crate) fn place(name: Option<&[u8]>, port: c_int, smi: bool) -> Result<Place, c_int> {
    if let Some(name) = name {
        if port != 0 {
            return Ok((name.to_vec(), port));
        }
        let ca = source::ca(name).map_err(|_| ENODEV)?;
        let (port, _) = best_port(&ca, 0, smi).ok_or(ENODEV)?;
        return Ok((name.to_vec(), port));
    }
    let mut second = None;
    for name in source::ca_names().map_err(|_| ENODEV)? {
        let Ok(ca) = source::ca(&name) else { continue };
        match best_port(&ca, port, smi) {
            Some((port, Fit::Active)) => return Ok((name, port)),
            Some((port, Fit::Usable)) if second.is_none() => second = Some((name, port)),
            _ => {}
        }
    }
    second.ok_or(ENODEV)
}

/// Returns the selected adapter, whichever port.
pub(crate) fn ca_name(name: Option<&[u8]>) -> Result<Vec<u8>, c_int> {
    match name {
        Some(name) => Ok(name.to_vec()),
        None => place(None, 0, false).map(|(name, _)| name),
    }
}

/// Returns the best port of an adapter, or the requested one if it is usable.
fn best_port(ca: &Ca, wanted: c_int, smi: bool) -> Option<(c_int, Fit)> {
    if ca.node_type == NODE_TYPE_SWITCH {
        // A switch is managed through its port 0.
        return Some((0, Fit::Active));
    }
    let fits = |port: &&Port| port.is_infiniband() && (!smi || port.has_smi());
    let found = |port: &Port| {
        let fit = if port.state == STATE_ACTIVE { Fit::Active } else { Fit::Usable };
        (c_int::from(port.number), fit)
    };
    if wanted > 0 {
        let port = ca.port(wanted).filter(fits)?;
        return (port.state == STATE_ACTIVE || port.phys_state != PHYS_DISABLED).then(|| found(port));
    }
    let ports = || ca.ports.iter().filter(fits);
    ports()
        .find(|port| port.state == STATE_ACTIVE)
        .or_else(|| ports().find(|port| port.phys_state == PHYS_LINK_UP))
        .or_else(|| ports().find(|port| port.phys_state != PHYS_DISABLED))
        .map(found)
}
