//! Pairs of interfaces: on adapters whose planes appear as separate devices, subnet management (SMI) and general
//! services (GSI) of one port use different devices, which share the port's GUID.

use libc::{ENODEV, c_char, c_int, c_uint};
use weft_abi_types::{UMAD_MAX_PORTS, umad_ca_pair};

use crate::adapter::{Ca, NODE_TYPE_SWITCH, Port};
use crate::errors::set_errno;
use crate::{source, text};

const STATE_DOWN: u32 = 1;

/// Two devices and their ports.
#[derive(Default)]
struct Pair {
    smi: Vec<u8>,
    smi_port: u32,
    gsi: Vec<u8>,
    gsi_port: u32,
}

impl Pair {
    fn put(&self, to: &mut umad_ca_pair) {
        text::put(&mut to.smi_name, &self.smi);
        text::put(&mut to.gsi_name, &self.gsi);
        to.smi_preferred_port = self.smi_port;
        to.gsi_preferred_port = self.gsi_port;
    }
}

/// A half of a pair.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Half {
    Smi,
    Gsi,
}

/// Returns all adapters by name, except unreadable ones.
fn adapters() -> Vec<Ca> {
    let mut names = source::ca_names().unwrap_or_default();
    names.sort();
    names.iter().filter_map(|name| source::ca(name).ok()).collect()
}

/// Returns the pairs, in the order of their devices. The first port with a GUID represents its device.
fn pairs(adapters: &[Ca]) -> Vec<Pair> {
    let sharing = |guid: u64| adapters.iter().flat_map(|ca| &ca.ports).filter(|port| port.guid == guid).count();
    let mut pairs: Vec<(u64, Pair)> = Vec::new();
    for ca in adapters {
        let Some(port) = ca.ports.iter().find(|port| port.guid != 0) else { continue };
        let at = pairs.iter().position(|(guid, _)| *guid == port.guid).unwrap_or_else(|| {
            pairs.push((port.guid, Pair::default()));
            pairs.len() - 1
        });
        let pair = &mut pairs[at].1;
        let alone = sharing(port.guid) == 1;
        if port.has_smi() {
            pair.smi.clone_from(&ca.name);
        }
        if alone || !port.has_smi() {
            pair.gsi.clone_from(&ca.name);
        }
    }
    pairs.into_iter().map(|(_, pair)| pair).collect()
}

fn is_up(port: &Port) -> bool {
    port.state > STATE_DOWN
}

impl Pair {
    fn prefer(&mut self, half: Half, port: u32) {
        match half {
            Half::Smi => self.smi_port = port,
            Half::Gsi => self.gsi_port = port,
        }
    }

    /// Takes the first port that is up; returns false if there is none.
    fn prefer_up(&mut self, half: Half, ca: &Ca) -> bool {
        let up = ca.ports.iter().find(|port| is_up(port));
        if let Some(port) = up {
            self.prefer(half, u32::from(port.number));
        }
        up.is_some()
    }

    /// Chooses the ports: the requested one, or the only one, or the first that is up. `named` means that the program
    /// named the device, and so accepts its port in any state. `half` is the half that `ca` serves.
    fn choose(&mut self, ca: &Ca, half: Half, asked: u8, named: bool) -> bool {
        let number = match ca.ports.as_slice() {
            [only] => only.number,
            _ => asked,
        };
        if number == 0 && ca.node_type != NODE_TYPE_SWITCH {
            let smi = self.prefer_up(Half::Smi, ca);
            return self.prefer_up(Half::Gsi, ca) && smi;
        }
        if !named && !ca.port(c_int::from(number)).is_some_and(is_up) {
            return false;
        }
        self.prefer(half, u32::from(number));
        let other = if half == Half::Gsi { Half::Smi } else { Half::Gsi };
        if self.smi == self.gsi {
            self.prefer(other, u32::from(number));
            return true;
        }
        self.prefer_up(other, ca) || named
    }
}

/// Finds the pair for a name (or none), a port (or 0) and a requirement for subnet management.
fn find(name: Option<&[u8]>, portnum: u8, smi: bool) -> Option<Pair> {
    let adapters = adapters();
    for mut pair in pairs(&adapters) {
        let unfit = (smi && pair.smi.is_empty()) || pair.gsi.is_empty();
        if unfit || name.is_some_and(|name| name != pair.smi && name != pair.gsi) {
            continue;
        }
        let is_gsi = (!smi && pair.smi.is_empty()) || name.is_some_and(|name| name == pair.gsi);
        let half = if is_gsi { Half::Gsi } else { Half::Smi };
        let device = if is_gsi { &pair.gsi } else { &pair.smi };
        let Some(ca) = adapters.iter().find(|ca| ca.name == *device) else { continue };
        if portnum != 0 && ca.port(c_int::from(portnum)).is_none() {
            continue;
        }
        if pair.choose(ca, half, portnum, name.is_some()) {
            return Some(pair);
        }
    }
    None
}

/// Writes at most `max` pairs and returns their number.
pub unsafe extern "C" fn umad_get_smi_gsi_pairs(cas: *mut umad_ca_pair, max: usize) -> c_int {
    let pairs = pairs(&adapters());
    let count = pairs.len().min(max).min(UMAD_MAX_PORTS);
    // SAFETY: the caller has room for `max` pairs, which consist of integers.
    unsafe { cas.write_bytes(0, max) };
    for (at, pair) in pairs.iter().take(count).enumerate() {
        // SAFETY: as above.
        pair.put(unsafe { &mut *cas.add(at) });
    }
    count as c_int
}

/// Finds a pair by the name of one of its devices, or the best one for null; returns 0, or a negative errno value.
pub unsafe extern "C" fn umad_get_smi_gsi_pair_by_ca_name(
    name: *const c_char,
    portnum: u8,
    pair: *mut umad_ca_pair,
    enforce_smi: c_uint,
) -> c_int {
    if pair.is_null() {
        return -1;
    }
    // SAFETY: the caller passes a place for a pair, which consists of integers, and null or a C string.
    let (pair, name) = unsafe {
        pair.write_bytes(0, 1);
        (&mut *pair, text::name(name))
    };
    match find(name, portnum, enforce_smi != 0) {
        Some(found) => {
            found.put(pair);
            0
        }
        None => {
            set_errno(ENODEV);
            -ENODEV
        }
    }
}
