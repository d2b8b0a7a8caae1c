//! Agents: the senders of a port's management datagrams, and the choice of the agent that gets a received one. As in
//! Linux, class, version, OUI and method select the agent for a request; the transaction ID selects it for a response.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use weft_wire::mad::vendor::VendorMad;
use weft_wire::mad::{Class, Mad, MadHeader, Method};

use crate::limits::AGENTS_MAX;

/// Number of an agent on its port, and the upper half of the transaction IDs of its requests.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct AgentId(pub u32);

/// Parameters with which an agent registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AgentSpec {
    /// Requests that the agent wants delivered; `None`: responses only.
    pub wants: Option<Wanted>,
    /// Whether the port runs RMPP for the agent; otherwise the agent sees the segments itself.
    pub rmpp: bool,
}

/// Unsolicited datagrams (requests, traps, reports) that an agent wants delivered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Wanted {
    /// Class.
    pub class: u8,
    /// Class version.
    pub class_version: u8,
    /// OUI, for vendor classes that have one.
    pub oui: u32,
    /// Methods, one bit each.
    pub methods: u128,
}

/// Reason why an agent cannot register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RegisterError {
    /// Another agent already has one of the methods.
    Taken(Method),
    /// The port has [`AGENTS_MAX`] agents.
    TooMany,
}

impl std::fmt::Display for RegisterError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RegisterError::Taken(method) => {
                write!(f, "another agent of this port gets method 0x{:02x} of the class: unregister it first", method.0)
            }
            RegisterError::TooMany => write!(f, "the port has {AGENTS_MAX} agents: close some"),
        }
    }
}

impl std::error::Error for RegisterError {}

/// Returns whether a datagram is a response (IBA 13.4.5). Baseboard management marks responses in the attribute
/// modifier.
pub fn is_response(header: &MadHeader) -> bool {
    header.method().is_response()
        || header.method() == Method::TRAP_REPRESS
        || header.class() == Class::BM && header.attr_mod() & 1 != 0
}

/// The agents of a port.
#[derive(Clone, Debug, Default)]
pub(crate) struct Agents {
    all: BTreeMap<AgentId, AgentSpec>,
    last: u32,
}

impl Agents {
    /// Creates an empty table that numbers its agents from `first`.
    pub fn numbered_from(first: u32) -> Agents {
        Agents { last: first.wrapping_sub(1), ..Agents::default() }
    }

    pub fn register(&mut self, spec: AgentSpec) -> Result<AgentId, RegisterError> {
        if self.all.len() >= AGENTS_MAX {
            return Err(RegisterError::TooMany);
        }
        if let Some(taken) = self.all.values().find_map(|other| shared_method(&spec, other)) {
            return Err(RegisterError::Taken(taken));
        }
        loop {
            self.last = self.last.wrapping_add(1).max(1);
            let id = AgentId(self.last);
            if let Entry::Vacant(place) = self.all.entry(id) {
                place.insert(spec);
                return Ok(id);
            }
        }
    }

    pub fn unregister(&mut self, id: AgentId) -> bool {
        self.all.remove(&id).is_some()
    }

    pub fn spec(&self, id: AgentId) -> Option<&AgentSpec> {
        self.all.get(&id)
    }

    /// Returns the agent whose request this response answers.
    pub fn asker(&self, header: &MadHeader) -> Option<AgentId> {
        let id = AgentId((header.tid() >> 32) as u32);
        self.all.contains_key(&id).then_some(id)
    }

    /// Returns the agent that registered for an unsolicited datagram.
    pub fn wanting(&self, mad: &Mad) -> Option<AgentId> {
        let header = &mad.header;
        let bit = 1_u128.checked_shl(header.method().0.into())?;
        let oui = header.class().has_oui().then(|| VendorMad::ref_from_mad(mad).oui());
        let fits = |wants: &Wanted| {
            wants.class == header.class().0
                && wants.class_version == header.class_version()
                && wants.methods & bit != 0
                && oui.is_none_or(|oui| oui == wants.oui)
        };
        self.all.iter().find(|(_, spec)| spec.wants.as_ref().is_some_and(fits)).map(|(id, _)| *id)
    }
}

/// Returns a method that both specifications claim.
fn shared_method(a: &AgentSpec, b: &AgentSpec) -> Option<Method> {
    let (a, b) = (a.wants?, b.wants?);
    let same = a.class == b.class
        && a.class_version == b.class_version
        && (!Class(a.class).has_oui() || a.oui == b.oui)
        && a.methods & b.methods != 0;
    same.then(|| Method((a.methods & b.methods).trailing_zeros() as u8))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_wire::mad::{AttrId, DATA_LEN};

    fn wants(class: Class, methods: &[Method]) -> AgentSpec {
        let methods = methods.iter().fold(0, |sum, method| sum | 1 << method.0);
        AgentSpec { wants: Some(Wanted { class: class.0, class_version: 1, oui: 0x1405, methods }), rmpp: false }
    }

    fn mad(class: Class, method: Method, tid: u64) -> Mad {
        Mad { header: MadHeader::new(class, 1, method, tid, AttrId(1)), data: [0; DATA_LEN] }
    }

    #[test]
    fn a_method_of_a_class_has_one_owner() {
        let mut agents = Agents::default();
        let sma = agents.register(wants(Class::SUBN_LID_ROUTED, &[Method::TRAP])).expect("first");
        assert_eq!(
            agents.register(wants(Class::SUBN_LID_ROUTED, &[Method::GET, Method::TRAP])),
            Err(RegisterError::Taken(Method::TRAP))
        );
        let get = agents.register(wants(Class::SUBN_LID_ROUTED, &[Method::GET])).expect("another method");
        let directed = agents.register(wants(Class::SUBN_DIRECTED_ROUTE, &[Method::TRAP])).expect("another class");
        let of = |class, method| agents.wanting(&mad(class, method, 0));
        assert_eq!(of(Class::SUBN_LID_ROUTED, Method::TRAP), Some(sma));
        assert_eq!(of(Class::SUBN_LID_ROUTED, Method::GET), Some(get));
        assert_eq!(of(Class::SUBN_DIRECTED_ROUTE, Method::TRAP), Some(directed));
        assert_eq!((of(Class::PERF, Method::GET), of(Class::SUBN_LID_ROUTED, Method(0xff))), (None, None));
        let mut agents = agents.clone();
        assert!(agents.unregister(sma) && !agents.unregister(sma));
        assert!(agents.register(wants(Class::SUBN_LID_ROUTED, &[Method::TRAP])).is_ok());
    }

    #[test]
    fn vendors_share_a_class_by_their_oui() {
        let mut agents = Agents::default();
        let ours = agents.register(wants(Class::OPENIB_PING, &[Method::GET])).expect("ours");
        let mut other = wants(Class::OPENIB_PING, &[Method::GET]);
        other.wants = other.wants.map(|wants| Wanted { oui: 7, ..wants });
        let theirs = agents.register(other).expect("another OUI");
        let ping = |oui| VendorMad::new(Class::OPENIB_PING, Method::GET, 1, AttrId(0), oui).to_mad();
        assert_eq!((agents.wanting(&ping(0x1405)), agents.wanting(&ping(7))), (Some(ours), Some(theirs)));
        assert_eq!(agents.wanting(&ping(8)), None);
    }

    #[test]
    fn an_answer_goes_to_who_asked() {
        let mut agents = Agents::default();
        let id = agents.register(AgentSpec::default()).expect("an agent");
        let answer = mad(Class::SUBN_ADM, Method::GET_RESP, u64::from(id.0) << 32 | 5);
        assert_eq!(agents.asker(&answer.header), Some(id));
        assert_eq!(agents.asker(&mad(Class::SUBN_ADM, Method::GET_RESP, 5).header), None);
        assert!(is_response(&answer.header) && is_response(&mad(Class::PERF, Method::TRAP_REPRESS, 0).header));
        assert!(!is_response(&mad(Class::BM, Method::SEND, 0).header));
    }
}
