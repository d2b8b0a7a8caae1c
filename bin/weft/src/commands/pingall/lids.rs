//! Questions to LIDs: each host's subnet management agent says which port it is.

use weft_diags::ib::address::PortId;
use weft_diags::ib::batch::{Asker, Question};
use weft_diags::ib::fields::subn::node_info;
use weft_diags::ib::mad::CLASS_SUBN_LID;
use weft_diags::ib::options::Common;
use weft_diags::ib::port::{MadError, Port};
use weft_diags::ib::report::End;
use weft_diags::ib::smp::NODE_INFO;

use super::wire::Place;

/// Requests in flight.
const IN_FLIGHT: usize = 16;

/// Asks all peers for their NodeInfo. Returns what happened, in their order.
///
/// # Errors
/// This host has no port to ask from.
pub fn ask_all(peers: &[Place]) -> Result<Vec<Result<(), String>>, String> {
    let mut port = Port::open(&Common::default(), &[CLASS_SUBN_LID]).map_err(text)?;
    let outcomes = vec![Err("not asked".to_owned()); peers.len()];
    let mut asker = Peers { peers, next: 0, outcomes };
    port.ask_all(&mut asker, IN_FLIGHT).map_err(|e| crate::errno::text(&e))?;
    Ok(asker.outcomes)
}

/// GUID of the port that [`ask_all`] asks from.
///
/// # Errors
/// There is none.
pub fn own_port_guid() -> Result<u64, String> {
    let library = Common::default().library().map_err(text)?;
    library.port(None, 0).map(|port| port.port_guid).map_err(|e| format!("no active port: {}", crate::errno::text(&e)))
}

fn text(end: End) -> String {
    match end {
        End::Failed { text, .. } | End::Panic { text, .. } => text,
        _ => "the port cannot be used".to_owned(),
    }
}

struct Peers<'a> {
    peers: &'a [Place],
    next: usize,
    outcomes: Vec<Result<(), String>>,
}

impl Asker for Peers<'_> {
    type About = usize;

    fn next(&mut self) -> Option<(Question, usize)> {
        let peer = self.peers.get(self.next)?;
        self.next += 1;
        Some((Question::smp(PortId::lid(peer.server.lid), NODE_INFO, 0), self.next - 1))
    }

    fn on_answer(&mut self, about: usize, answer: Result<&[u8], MadError>) {
        let Some((peer, outcome)) = self.peers.get(about).zip(self.outcomes.get_mut(about)) else { return };
        *outcome = match answer.map(|bytes| node_info::PORT_GUID.value(bytes)) {
            Ok(guid) if guid == peer.port_guid => Ok(()),
            Ok(guid) => Err(format!("port {guid:#018x} answered at LID {}", peer.server.lid)),
            Err(MadError { status: 0, errno }) => Err(match std::io::Error::from_raw_os_error(errno) {
                late if late.kind() == std::io::ErrorKind::TimedOut => "no answer".to_owned(),
                error => crate::errno::text(&error),
            }),
            Err(MadError { status, .. }) => Err(format!("MAD status {status:#x}")),
        };
    }
}
