//! Checks for agents that a program registers: Linux's rules, and its errno values.

use weft_ipc::Refusal;
use weft_ipc::umad::UmadAgent;
use weft_mad::{AgentSpec, Wanted};
use weft_wire::mad::rmpp::{RmppHeader, data_offset};
use weft_wire::mad::{Class, Method};

use crate::refusal::{EINVAL, refuse};

/// Classes below this have method tables; the directed-route class is the only one above.
const CLASSES: u8 = 80;

/// Versions of a class.
const CLASS_VERSIONS: u8 = 8;

/// Checks a program's registration.
pub fn check(agent: &UmadAgent) -> Result<AgentSpec, Refusal> {
    let rmpp = agent.rmpp_version != 0 && !agent.user_rmpp;
    match wrong(agent) {
        Some(text) => Err(refuse(EINVAL, text)),
        None => Ok(AgentSpec { wants: wanted(agent), rmpp }),
    }
}

fn wanted(agent: &UmadAgent) -> Option<Wanted> {
    let UmadAgent { class, class_version, oui, method_mask: methods, .. } = *agent;
    (class != 0 && methods != 0).then_some(Wanted { class, class_version, oui, methods })
}

fn wrong(agent: &UmadAgent) -> Option<String> {
    let class = Class(agent.class);
    if agent.qpn > 1 {
        return Some(format!("agents are on queue pair 0 or 1, not {}", agent.qpn));
    }
    if agent.rmpp_version > RmppHeader::VERSION {
        return Some(format!("there is no version {} of RMPP", agent.rmpp_version));
    }
    if agent.class == 0 {
        return None;
    }
    if agent.class_version >= CLASS_VERSIONS {
        return Some(format!("there is no version {} of a class", agent.class_version));
    }
    if agent.class >= CLASSES && class != Class::SUBN_DIRECTED_ROUTE {
        return Some(format!("there is no management class {:#x}", agent.class));
    }
    if class.has_oui() && (agent.oui == 0 || agent.oui > 0xff_ffff) {
        return Some(format!("management class {:#x} needs an OUI of 24 bits", agent.class));
    }
    if agent.rmpp_version != 0 && data_offset(class).is_none() {
        return Some(format!("management class {:#x} has no RMPP", agent.class));
    }
    if class.is_subn() != (agent.qpn == 0) {
        return Some("subnet management uses queue pair 0, every other class queue pair 1".to_owned());
    }
    None
}

/// Returns whether an agent gets requests for the attributes of device management.
pub(super) fn is_device_manager(agent: &UmadAgent) -> bool {
    agent.class == Class::DEV_MGT.0 && agent.method_mask & 1 << Method::GET.0 != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_are_refused_as_linux_refuses_them() {
        let gsi = |class, oui, rmpp_version| UmadAgent {
            qpn: 1,
            class,
            class_version: 1,
            oui,
            rmpp_version,
            ..UmadAgent::default()
        };
        let smi = |class| UmadAgent { qpn: 0, ..gsi(class, 0, 0) };
        for good in [gsi(0, 0, 0), gsi(3, 0, 1), gsi(4, 0, 0), gsi(0x32, 0x1405, 1), smi(1), smi(0x81), gsi(7, 0, 0)] {
            assert!(check(&good).is_ok(), "{good:?}");
        }
        for bad in [
            gsi(4, 0, 1),
            gsi(3, 0, 2),
            gsi(0x32, 0, 0),
            gsi(0x32, 1 << 24, 0),
            gsi(80, 0, 0),
            gsi(1, 0, 0),
            gsi(0x81, 0, 0),
            smi(3),
            UmadAgent { qpn: 2, ..gsi(4, 0, 0) },
            UmadAgent { class_version: 8, ..gsi(4, 0, 0) },
        ] {
            assert_eq!(check(&bad).unwrap_err().errno, EINVAL, "{bad:?}");
        }
        assert!(check(&gsi(3, 0, 1)).unwrap().rmpp);
        assert!(!check(&UmadAgent { user_rmpp: true, ..gsi(3, 0, 1) }).unwrap().rmpp);
    }
}
