//! Answers: the question's header turned round, and records behind it.

use weft_wire::mad::rmpp::RmppHeader;
use weft_wire::mad::sa::{SaMad, attribute_offset};
use weft_wire::mad::{AttrId, Attribute, MAD_LEN, Method, Status};
use zerocopy::{FromZeros, IntoBytes};

use super::limits::ANSWER_BYTES_MAX;

/// What there is to say to a question.
#[derive(Debug)]
pub(super) struct Answer {
    /// The datagram from its first byte on; the header is written last.
    bytes: Vec<u8>,
    count: usize,
    /// Words of eight bytes from one record to the next.
    offset: u16,
    /// A Get: one record is asked for.
    single: bool,
    overflow: bool,
    /// The attribute of the answer, where it is not the question's.
    attr_id: Option<AttrId>,
}

/// Why there is no answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Refusal {
    /// This status says why.
    Status(Status),
    /// Who asks is not told.
    Silent,
}

/// The usual refusals.
impl Refusal {
    pub const INVALID: Refusal = Refusal::Status(Status::SA_REQ_INVALID);
    pub const NO_RECORDS: Refusal = Refusal::Status(Status::SA_NO_RECORDS);
    pub const NO_RESOURCES: Refusal = Refusal::Status(Status::SA_NO_RESOURCES);
    pub const INSUFFICIENT: Refusal = Refusal::Status(Status::SA_REQ_INSUFFICIENT_COMPONENTS);
    pub const INVALID_GID: Refusal = Refusal::Status(Status::SA_REQ_INVALID_GID);
    pub const DENIED: Refusal = Refusal::Status(Status::SA_REQ_DENIED);
    pub const METHOD: Refusal = Refusal::Status(Status::BAD_METHOD_ATTRIBUTE);
}

/// Whether a question goes on.
pub(super) type Outcome = Result<(), Refusal>;

impl Answer {
    pub fn new(method: Method) -> Answer {
        let mut bytes = Vec::with_capacity(MAD_LEN);
        bytes.resize(SaMad::DATA_AT, 0);
        let single = !matches!(method, Method::GET_TABLE | Method::GET_MULTI);
        Answer { bytes, count: 0, offset: 0, single, overflow: false, attr_id: None }
    }

    /// Adds a record. Whether more of them make sense.
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

    /// Whether another record would be looked at: of a Get a second one is already an error.
    pub fn wants_more(&self) -> bool {
        !(self.overflow || self.single && self.count > 1)
    }

    /// Records so far.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Whether one record is asked for.
    pub fn is_single(&self) -> bool {
        self.single
    }

    /// There are more records than an answer holds.
    pub fn overflow(&mut self) {
        self.overflow = true;
    }

    /// Answer with another attribute than the question's.
    pub fn set_attr_id(&mut self, attr_id: AttrId) {
        self.attr_id = Some(attr_id);
    }

    /// The datagram that answers: 256 bytes, or a transfer of many.
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

/// The question's header turned round.
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

/// The answer that says no, with the question in it.
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
