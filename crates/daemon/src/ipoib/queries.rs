//! Questions of an IPoIB interface to the subnet administration (RFC 4391 §5, §9.1).

use weft_fabric::{Fabric, MadAddress, MadOut, PortRef};
use weft_mad::{SaClient, SaError};
use weft_verbs::{Duration, Instant};
use weft_wire::mad::sa::{ComponentMask, JoinState, McMemberRecord, PathRecord, SaMad, Selector};
use weft_wire::mad::{Mad, Method};

/// Timeout of a query.
const SA_WITHIN: Duration = Duration::from_secs(4);

/// A query that is under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Asked {
    Join([u8; 16]),
    Leave,
    Path([u8; 16]),
}

/// An answer, or the end of waiting for one.
#[derive(Clone, Debug)]
pub enum Answer {
    /// The membership in a group.
    Joined(Box<McMemberRecord>),
    /// The join was refused or not answered.
    NotJoined([u8; 16]),
    /// A path.
    Path(Box<PathRecord>),
    /// The query was refused or not answered.
    NoPath([u8; 16]),
}

/// The queries of one port.
#[derive(Debug)]
pub struct Queries {
    port: PortRef,
    gid: [u8; 16],
    pkey: u16,
    client: SaClient<Asked>,
}

impl Queries {
    /// Makes them; `seed` must not be predictable.
    pub fn new(port: PortRef, gid: [u8; 16], pkey: u16, seed: u64) -> Queries {
        Queries { port, gid, pkey, client: SaClient::new(seed) }
    }

    /// Joins a group: a full member receives, another sends only. `like`: the broadcast group, whose attributes a group
    /// gets that does not exist yet.
    pub fn join(
        &mut self,
        now: Instant,
        fabric: &mut Fabric,
        mgid: [u8; 16],
        full: bool,
        like: Option<&McMemberRecord>,
    ) {
        let join_state = if full { JoinState::FULL_MEMBER } else { JoinState::SEND_ONLY_NON_MEMBER };
        let mut record = McMemberRecord { mgid, port_gid: self.gid, join_state, ..McMemberRecord::default() };
        let mut mask =
            McMemberRecord::MGID | McMemberRecord::PORT_GID | McMemberRecord::JOIN_STATE | McMemberRecord::PKEY;
        record.pkey = self.pkey;
        if let Some(like) = like.filter(|_| full) {
            let McMemberRecord { qkey, mtu, tclass, rate, sl, flow_label, hop_limit, .. } = *like;
            record = McMemberRecord { qkey, mtu, tclass, rate, sl, flow_label, hop_limit, ..record };
            (record.mtu_selector, record.rate_selector) = (Selector::EXACTLY, Selector::EXACTLY);
            mask |= McMemberRecord::QKEY
                | McMemberRecord::MTU_SELECTOR
                | McMemberRecord::MTU
                | McMemberRecord::TCLASS
                | McMemberRecord::RATE_SELECTOR
                | McMemberRecord::RATE
                | McMemberRecord::SL
                | McMemberRecord::FLOW_LABEL
                | McMemberRecord::HOP_LIMIT;
        }
        self.ask(now, fabric, Asked::Join(mgid), Method::SET, (mask, &record));
    }

    /// Leaves a group.
    pub fn leave(&mut self, now: Instant, fabric: &mut Fabric, mgid: [u8; 16]) {
        let join_state = JoinState::FULL_MEMBER;
        let record = McMemberRecord { mgid, port_gid: self.gid, join_state, ..McMemberRecord::default() };
        let mask = McMemberRecord::MGID | McMemberRecord::PORT_GID | McMemberRecord::JOIN_STATE;
        self.ask(now, fabric, Asked::Leave, Method::DELETE, (mask, &record));
    }

    /// Queries the path to a port.
    pub fn path(&mut self, now: Instant, fabric: &mut Fabric, dgid: [u8; 16]) {
        let (sgid, pkey) = (self.gid, self.pkey);
        let record = PathRecord { dgid, sgid, pkey, numb_path: 1, reversible: true, ..PathRecord::default() };
        let mask =
            PathRecord::DGID | PathRecord::SGID | PathRecord::PKEY | PathRecord::NUMB_PATH | PathRecord::REVERSIBLE;
        self.ask(now, fabric, Asked::Path(dgid), Method::GET, (mask, &record));
    }

    fn ask<A: weft_wire::mad::Attribute>(
        &mut self,
        now: Instant,
        fabric: &mut Fabric,
        asked: Asked,
        method: Method,
        query: (ComponentMask, &A),
    ) {
        // With too many queries under way this one is lost, and the interface repeats it.
        if let Ok(mad) = self.client.ask(now, SA_WITHIN, asked, method, query) {
            self.send(now, fabric, mad);
        }
    }

    /// Sends a datagram to the port's subnet manager. Without one it is lost, and repeated.
    fn send(&self, now: Instant, fabric: &mut Fabric, mad: Mad) {
        let Some(info) = fabric.port_info(self.port).filter(|info| info.master_sm_lid != 0) else { return };
        // The manager is in the partition of the table's first row, whichever one the interface is of.
        let Some(&pkey) = fabric.pkeys(self.port).first() else { return };
        let to = MadAddress { sl: info.master_sm_sl, ..MadAddress::gsi(info.master_sm_lid, pkey) };
        let _ = fabric.send(now, self.port, &MadOut { to, mad });
    }

    /// Handles a datagram from the subnet administration.
    pub fn handle_mad(&mut self, now: Instant, mad: &Mad) -> Option<Answer> {
        let (asked, result) = self.client.handle_mad(now, mad)?;
        answer(asked, result)
    }

    /// Returns when [`Queries::poll_due`] is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.client.poll_timeout()
    }

    /// Repeats what is due, and returns the next query that was not answered in time. Call it until it returns `None`.
    pub fn poll_due(&mut self, now: Instant, fabric: &mut Fabric) -> Option<Answer> {
        while let Some(due) = self.client.poll_due(now) {
            match due {
                Ok(mad) => self.send(now, fabric, mad),
                Err(Asked::Leave) => {}
                Err(asked) => return answer(asked, Err(SaError::TimedOut)),
            }
        }
        None
    }
}

fn answer(asked: Asked, result: Result<SaMad, SaError>) -> Option<Answer> {
    let mad = result.ok();
    match asked {
        Asked::Leave => None,
        Asked::Join(mgid) => Some(match mad.and_then(|mad| mad.record::<McMemberRecord>()) {
            Some(record) if record.mgid == mgid => Answer::Joined(Box::new(record)),
            _ => Answer::NotJoined(mgid),
        }),
        Asked::Path(dgid) => Some(match mad.and_then(|mad| mad.record::<PathRecord>()) {
            Some(record) if record.dgid == dgid => Answer::Path(Box::new(record)),
            _ => Answer::NoPath(dgid),
        }),
    }
}
