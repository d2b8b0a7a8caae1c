//! Subnet administration: record queries to the subnet manager.

use std::io;

use super::address::PortId;
use super::mad::{self, CLASS_SUBN_ADM, GET, MAD_LEN, Request, SA_DATA_AT};
use super::port::{MadError, Port};
use super::report::warn;
use crate::errno;

/// NodeRecord.
pub const NODE_RECORD: u16 = 0x11;
/// PathRecord.
pub const PATH_RECORD: u16 = 0x35;
/// PathRecord's component mask: DGID.
pub const PATH_DGID: u64 = 1 << 2;
/// PathRecord's component mask: SGID.
pub const PATH_SGID: u64 = 1 << 3;

/// Offsets of DGID, SGID, DLID and SL in PathRecord.
const PATH_DGID_AT: usize = 8;
const PATH_SGID_AT: usize = 24;
const PATH_DLID_AT: usize = 40;
const PATH_SL_AT: usize = 53;

/// A query that may return many records.
#[derive(Clone, Copy, Debug, Default)]
pub struct Query<'a> {
    /// Get, GetTable, ...
    pub method: u8,
    /// The record's attribute ID.
    pub attribute: u16,
    /// Attribute modifier.
    pub modifier: u32,
    /// Component mask: the components to match.
    pub component_mask: u64,
    /// SM_Key, for trusted requests.
    pub sm_key: u64,
    /// The record to match.
    pub data: &'a [u8],
}

/// An answer: its status, and its records if the status is 0.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Status of the answer.
    pub status: u16,
    /// The whole answer, header and all records.
    pub mad: Vec<u8>,
}

/// Why a query has no answer.
#[derive(Debug)]
pub enum SaError {
    /// The request could not be sent.
    Send(io::Error),
    /// The answer could not be received.
    Recv(io::Error),
    /// The kernel, or the library in its place, gave up: an errno.
    Status(i32),
}

impl Answer {
    /// Distance from one record to the next in bytes; 0 if there are none.
    pub fn record_len(&self) -> usize {
        usize::from(mad::attribute_offset(&self.mad)) * 8
    }

    /// The records: one after a Get, any number after a GetTable. Each has the length of the attribute offset, or is
    /// the rest of the datagram.
    pub fn records(&self) -> impl Iterator<Item = &[u8]> {
        let data = self.mad.get(SA_DATA_AT..).unwrap_or_default();
        let is_table = mad::method(&self.mad) & !mad::RESPONSE == mad::GET_TABLE;
        let len = if is_table { self.record_len() } else { data.len() };
        let data = if self.status != 0 || len == 0 { &[] } else { data };
        data.chunks_exact(len.max(1))
    }
}

impl Port {
    /// Sends one query and waits for all records of the answer.
    ///
    /// # Errors
    /// There is no answer.
    pub fn sa_query(&mut self, sm: &PortId, query: &Query<'_>, timeout_ms: u32) -> Result<Answer, SaError> {
        let request = Request {
            class: CLASS_SUBN_ADM,
            method: query.method,
            attribute: query.attribute,
            modifier: query.modifier,
            component_mask: query.component_mask,
            sm_key: query.sm_key,
            data: query.data,
            ..Request::default()
        };
        let wait = i32::try_from(timeout_ms).unwrap_or(i32::MAX);
        let mut packet = self.packet(&request, sm).map_err(|e| SaError::Send(io::Error::from_raw_os_error(e.errno)))?;
        if self.debug > 1 {
            crate::output::print(&format!("SA Request:\n{}", mad::hex_dump(packet.mad())));
        }
        self.send(CLASS_SUBN_ADM, &mut packet, wait).map_err(|error| {
            let text = errno::text(&error);
            warn("sa_query", &format!("umad_send failed: attr 0x{:x}: {text}\n", query.attribute));
            SaError::Send(error)
        })?;
        loop {
            let answer = self.recv(wait).map_err(|error| {
                let text = errno::text(&error);
                warn("sa_query", &format!("umad_recv failed: attr 0x{:x}: {text}\n", query.attribute));
                SaError::Recv(error)
            })?;
            // A late answer belongs to an earlier query.
            if mad::tid(answer.mad()) != mad::tid(packet.mad()) {
                continue;
            }
            if answer.status() != 0 {
                return Err(SaError::Status(answer.status()));
            }
            if self.debug > 1 {
                crate::output::print(&format!("SA Response:\n{}", mad::hex_dump(answer.mad())));
            }
            let status = mad::status(answer.mad(), CLASS_SUBN_ADM);
            return Ok(Answer { status, mad: answer.mad().to_vec() });
        }
    }

    /// LID and service level of the path between two GIDs.
    ///
    /// # Errors
    /// The subnet manager does not answer, or knows no path.
    pub fn sa_path(&mut self, sm: &PortId, sgid: [u8; 16], dgid: [u8; 16]) -> Result<(u16, u8), MadError> {
        let mut data = [0; MAD_LEN - SA_DATA_AT];
        data[PATH_DGID_AT..PATH_DGID_AT + 16].copy_from_slice(&dgid);
        data[PATH_SGID_AT..PATH_SGID_AT + 16].copy_from_slice(&sgid);
        if sm.lid == 0 {
            warn("sa_rpc_call", "only lid routes are supported");
            warn("ib_path_query_via", "sa call path_query failed");
            return Err(MadError { status: 0, errno: libc::ENXIO });
        }
        let request = Request {
            class: CLASS_SUBN_ADM,
            method: GET,
            attribute: PATH_RECORD,
            component_mask: PATH_DGID | PATH_SGID,
            data: &data,
            ..Request::default()
        };
        let answer = self.rpc_rmpp(&request, sm).inspect_err(|_| {
            warn("ib_path_query_via", "sa call path_query failed");
        })?;
        let byte = |at: usize| answer.get(SA_DATA_AT + at).copied().unwrap_or(0);
        Ok((u16::from_be_bytes([byte(PATH_DLID_AT), byte(PATH_DLID_AT + 1)]), byte(PATH_SL_AT) & 0xf))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(method: u8, units: u16, data: usize, status: u16) -> Answer {
        let mut mad = vec![0; SA_DATA_AT + data];
        mad[3] = method;
        mad[44..46].copy_from_slice(&units.to_be_bytes());
        Answer { status, mad }
    }

    #[test]
    fn records_are_cut_at_their_own_length() {
        assert_eq!(answer(0x92, 14, 112 * 3 + 5, 0).records().count(), 3);
        assert_eq!(answer(0x92, 0, 200, 0).records().count(), 0);
        assert_eq!(answer(0x81, 14, 200, 0).records().count(), 1);
        assert_eq!(answer(0x92, 14, 112, 0x300).records().count(), 0);
        assert_eq!(Answer { status: 0, mad: vec![] }.records().count(), 0);
    }
}
