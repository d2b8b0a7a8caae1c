//! Connections at both ends of a datagram, found without handling it.

use weft_mad::{GmpAddress, MadBytes};
use weft_wire::cm::CmMessage;
use weft_wire::mad::Mad;

use super::cm::Cm;
use super::comm_id::ConnId;

/// Addressee of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Addressee {
    /// This connection.
    Connection(ConnId),
    /// The listeners of this service.
    Service(u64),
}

impl Cm {
    /// Returns whether a connection exists, even if its owner has destroyed it and it is still disconnecting.
    pub fn knows(&self, conn: ConnId) -> bool {
        self.conns.contains_key(&conn)
    }

    /// Returns the connection or service that a datagram addresses; `None` if it is no CM message or names neither.
    pub fn addressee(&self, from: &GmpAddress, bytes: &MadBytes) -> Option<Addressee> {
        let mad: Mad = zerocopy::transmute!(*bytes);
        let named = |local: u32| Some(Addressee::Connection(ConnId(local)));
        match CmMessage::from_mad(&mad).ok()? {
            CmMessage::Req(req) => {
                let known = self.tables.remote_ids.get(&(req.local_ca_guid, req.local_comm_id));
                Some(known.map_or(Addressee::Service(req.service_id.0), |conn| Addressee::Connection(*conn)))
            }
            CmMessage::SidrReq(req) => {
                let known = self.tables.remote_sidrs.get(&(from.dgid, req.request_id));
                Some(known.map_or(Addressee::Service(req.service_id.0), |conn| Addressee::Connection(*conn)))
            }
            CmMessage::Rej(rej) => self.rejected(&rej).map(Addressee::Connection),
            CmMessage::Mra(mra) => named(mra.remote_comm_id),
            CmMessage::Rep(rep) => named(rep.remote_comm_id),
            CmMessage::Rtu(rtu) => named(rtu.remote_comm_id),
            CmMessage::Dreq(dreq) => named(dreq.remote_comm_id),
            CmMessage::Drep(drep) => named(drep.remote_comm_id),
            CmMessage::SidrRep(rep) => named(rep.request_id),
            CmMessage::Lap(lap) => named(lap.remote_comm_id),
            CmMessage::Apr(apr) => named(apr.remote_comm_id),
        }
    }

    /// Returns the connection that sends a datagram; `None` if it is no CM message or belongs to none, such as the answer
    /// for a datagram service, which ends the exchange.
    pub fn sender(&self, bytes: &MadBytes) -> Option<ConnId> {
        let mad: Mad = zerocopy::transmute!(*bytes);
        let conn = match CmMessage::from_mad(&mad).ok()? {
            CmMessage::Req(req) => ConnId(req.local_comm_id),
            CmMessage::SidrReq(req) => ConnId(req.request_id),
            CmMessage::SidrRep(_) => return None,
            CmMessage::Rej(rej) => ConnId(rej.local_comm_id),
            CmMessage::Mra(mra) => ConnId(mra.local_comm_id),
            CmMessage::Rep(rep) => ConnId(rep.local_comm_id),
            CmMessage::Rtu(rtu) => ConnId(rtu.local_comm_id),
            CmMessage::Dreq(dreq) => ConnId(dreq.local_comm_id),
            CmMessage::Drep(drep) => ConnId(drep.local_comm_id),
            CmMessage::Lap(lap) => ConnId(lap.local_comm_id),
            CmMessage::Apr(apr) => ConnId(apr.local_comm_id),
        };
        self.knows(conn).then_some(conn)
    }
}
