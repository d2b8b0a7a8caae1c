//! Responses: the request's header turned into a response header, followed by records.

use weft_wire::mad::rmpp::RmppHeader;
use weft_wire::mad::sa::{SaMad, attribute_offset};
use weft_wire::mad::{AttrId, Attribute, MAD_LEN, Method, Status};
use zerocopy::{FromZeros, IntoBytes};

use super::limits::ANSWER_BYTES_MAX;

/// A response under construction.
#[derive(Debug)]
pub(super) struct Answer {
    /// The datagram from its first byte; the header is written last.
    bytes: Vec<u8>,
    count: usize,
    /// Attribute offset: distance between records in units of eight bytes.
    offset: u16,
    /// A method that returns a single record, so more than one is an error.
    single: bool,
    overflow: bool,
    /// AttributeID of the response if it differs from the request's.
    attr_id: Option<AttrId>,
}

/// Reason to return no records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Refusal {
    /// Respond with this status.
    Status(Status),
    /// Send no response.
    Silent,
}

/// The common refusals.
impl Refusal {
    pub const INVALID: Refusal = Refusal::Status(Status::SA_REQ_INVALID);
    pub const NO_RECORDS: Refusal = Refusal::Status(Status::SA_NO_RECORDS);
    pub const NO_RESOURCES: Refusal = Refusal::Status(Status::SA_NO_RESOURCES);
    pub const INSUFFICIENT: Refusal = Refusal::Status(Status::SA_REQ_INSUFFICIENT_COMPONENTS);
    pub const INVALID_GID: Refusal = Refusal::Status(Status::SA_REQ_INVALID_GID);
    pub const DENIED: Refusal = Refusal::Status(Status::SA_REQ_DENIED);
    pub const METHOD: Refusal = Refusal::Status(Status::BAD_METHOD_ATTRIBUTE);
}

/// Result of handling a request.
pub(super) type Outcome = Result<(), Refusal>;

impl Answer {
    pub fn new(method: Method) -> Answer {
        let mut bytes = Vec::with_capacity(MAD_LEN);
        bytes.resize(SaMad::DATA_AT, 0);
        let single = !matches!(method, Method::GET_TABLE | Method::GET_MULTI);
        Answer { bytes, count: 0, offset: 0, single, overflow: false, attr_id: None }
    }

    /// Adds a record. Returns whether more records are useful.
    pub fn push<A: Attribute>(&mut self, record: &A) -> bool {
        let at = self.bytes.len();
        self.offset = attribute_offset::<A>();
        let end = at + usize::from(self.offset) * 8;
        self.overflow |= end > ANSWER_BYTES_MAX;
        if self.overflow {
            return false;
        }
        self.count += 1;
        self.bytes.resize(end, 0);
        if let Some(place) = self.bytes.get_mut(at..) {
            record.write(place);
        }
        self.wants_more()
    }

    /// Whether another record is useful. For a Get, a second record is already an error.
    pub fn wants_more(&self) -> bool {
        !(self.overflow || self.single && self.count > 1)
    }

    /// Number of records so far.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Whether the method returns a single record.
    pub fn is_single(&self) -> bool {
        self.single
    }

    /// Marks the response as too large.
    pub fn overflow(&mut self) {
        self.overflow = true;
    }

    /// Sets an AttributeID that differs from the request's.
    pub fn set_attr_id(&mut self, attr_id: AttrId) {
        self.attr_id = Some(attr_id);
    }

    /// Returns the response datagram: 256 bytes, or the whole of a multi-packet (RMPP) transfer.
    pub fn finish(mut self, question: &SaMad, outcome: Outcome) -> Option<Vec<u8>> {
        let refusal = match outcome {
            Err(refusal) => Some(refusal),
            Ok(()) if self.overflow => Some(Refusal::NO_RESOURCES),
            Ok(()) if self.single && self.count == 0 => Some(Refusal::NO_RECORDS),
            Ok(()) if self.single && self.count > 1 => Some(Refusal::Status(Status::SA_TOO_MANY_RECORDS)),
            Ok(()) => None,
        };
        match refusal {
            Some(Refusal::Silent) => None,
            Some(Refusal::Status(status)) => Some(refuse(question, status)),
            None => {
                let offset = if self.count == 0 { 0 } else { self.offset };
                let header = header(question, self.attr_id, offset, !self.single);
                self.bytes.get_mut(..SaMad::DATA_AT)?.copy_from_slice(header.as_bytes().get(..SaMad::DATA_AT)?);
                if self.single {
                    self.bytes.resize(MAD_LEN, 0);
                }
                Some(self.bytes)
            }
        }
    }
}

/// The request's header turned into a response header.
fn header(question: &SaMad, attr_id: Option<AttrId>, offset: u16, table: bool) -> SaMad {
    let mut mad = *question;
    mad.header.set_method(question.header.method().response());
    mad.header.set_status(Status::SUCCESS);
    if let Some(attr_id) = attr_id {
        mad.header.set_attr_id(attr_id);
    }
    mad.set_sm_key(0);
    mad.set_attribute_offset(offset);
    mad.rmpp = match table {
        true => RmppHeader::data(RmppHeader::ACTIVE, 1, 0),
        false => RmppHeader::new_zeroed(),
    };
    mad
}

/// The error response: the request with this status.
pub(super) fn refuse(question: &SaMad, status: Status) -> Vec<u8> {
    let attr_id = match question.attr_id() {
        AttrId::SA_MULTI_PATH_RECORD => Some(AttrId::SA_PATH_RECORD),
        _ => None,
    };
    let offset = match question.header.method() {
        Method::GET_TABLE => 0,
        _ => question.attribute_offset(),
    };
    let mut mad = header(question, attr_id, offset, false);
    mad.header.set_status(status);
    mad.as_bytes().to_vec()
}
