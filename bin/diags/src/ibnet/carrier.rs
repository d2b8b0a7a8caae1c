//! Transport of discovery's requests through an open port.

use std::io;

use super::discover::{Carrier, Question, Refusal};
use super::{Attribute, Config, Fabric, discover};
use crate::ib::address::PortId;
use crate::ib::mad::{self, Request};
use crate::ib::options::Common;
use crate::ib::port::Port;
use crate::ib::report::Outcome;

/// Default timeout for an answer, in milliseconds.
const TIMEOUT_MS: u32 = 1000;
/// Number of retries when no answer comes.
const RETRIES: i32 = 3;

/// A port that carries discovery's requests.
pub struct PortCarrier {
    port: Port,
    own_lid: u16,
    timeout_ms: i32,
}

impl PortCarrier {
    /// Opens the port that the options name.
    ///
    /// # Errors
    /// How the tool ends.
    pub fn open(common: &Common) -> Outcome<PortCarrier> {
        let port = Port::open(common, &[mad::CLASS_SUBN_LID, mad::CLASS_SUBN_DIRECTED])?;
        let own_lid = common.own_port()?.map_or(0, |own| own.base_lid);
        let timeout_ms = common.timeout_ms.unwrap_or(TIMEOUT_MS);
        Ok(PortCarrier { port, own_lid, timeout_ms: i32::try_from(timeout_ms).unwrap_or(i32::MAX) })
    }
}

impl Carrier for PortCarrier {
    fn send(&mut self, question: &Question) -> io::Result<u64> {
        let class = if question.to.is_directed() { mad::CLASS_SUBN_DIRECTED } else { mad::CLASS_SUBN_LID };
        let request = Request {
            class,
            method: mad::GET,
            attribute: question.attribute,
            modifier: question.modifier,
            m_key: self.port.m_key,
            ..Request::default()
        };
        let mut packet = self.port.packet(&request, &question.to).map_err(|e| io::Error::from_raw_os_error(e.errno))?;
        self.port.send_with_retries(class, &mut packet, self.timeout_ms, RETRIES)?;
        Ok(mad::tid(packet.mad()).into())
    }

    fn receive(&mut self) -> io::Result<(u64, Result<Attribute, Refusal>)> {
        let packet = self.port.recv(-1)?;
        let bytes = packet.mad();
        let answer = match (packet.status(), mad::status(bytes, mad::CLASS_SUBN_DIRECTED)) {
            (0, 0) => Ok(Attribute::of(bytes.get(mad::DATA_AT..).unwrap_or_default())),
            (0, status) => Err(Refusal::Status(status)),
            (errno, _) => Err(Refusal::Transport(errno)),
        };
        Ok((mad::tid(bytes).into(), answer))
    }

    fn own_lid(&self) -> u16 {
        self.own_lid
    }
}

/// Walks the fabric through the port that the options name, starting at `from`.
///
/// # Errors
/// How the tool ends if the port cannot be opened; the inner error says why the walk failed.
pub fn discover_from(common: &Common, from: PortId, config: Config) -> Outcome<Result<Fabric, String>> {
    let mut carrier = PortCarrier::open(common)?;
    Ok(discover(&mut carrier, from, config))
}
