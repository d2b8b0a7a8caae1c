//! Communication management (IBA 12): the eleven messages that set up, change and end connections between two hosts.
//! Each is a structure with named fields, encoded in the 232 data bytes of a management datagram. The attribute ID in
//! the datagram's header identifies the message.
//!
//! ```text
//! REQ      service, queue pair, path     ->       | MRA      wait longer
//!                                        <- REP   | REJ      no, and why
//! RTU      taken                         ->       | LAP APR  another path
//! DREQ     the end                       -> DREP  | SIDR_REQ SIDR_REP  which queue pair serves datagrams
//! ```

mod alternate;
mod disconnect;
pub mod ip;
mod path;
mod private;
mod reject;
mod reply;
mod req;
mod service_id;
mod sidr;

pub use alternate::{APR_INFO_MAX, APR_PRIVATE_MAX, ApStatus, Apr, LAP_PRIVATE_MAX, Lap};
pub use disconnect::{DREP_PRIVATE_MAX, DREQ_PRIVATE_MAX, Drep, Dreq};
pub use ip::{IpCmError, IpCmHeader, IpPair};
pub use path::{LID_PERMISSIVE, Path};
pub use private::{PrivateData, TooLong};
pub use reject::{ARI_MAX, MessageRejected, REJ_PRIVATE_MAX, Rej, RejectReason};
pub use reply::{Failover, MRA_PRIVATE_MAX, MessageMraed, Mra, REP_PRIVATE_MAX, RTU_PRIVATE_MAX, Rep, Rtu};
pub use req::{ExtendedTransport, REQ_PRIVATE_MAX, Req, TransportService};
pub use service_id::ServiceId;
pub use sidr::{SIDR_REP_INFO_MAX, SIDR_REP_PRIVATE_MAX, SIDR_REQ_PRIVATE_MAX, SidrRep, SidrReq, SidrStatus};

use crate::layout;
use crate::mad::{AttrId, Class, Mad, MadData, MadHeader, Method};

/// Class version of communication management.
pub const CLASS_VERSION: u8 = 2;

/// Reason why a management datagram is not a CM message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CmError {
    /// A base version other than 1.
    BaseVersion(u8),
    /// Another management class.
    Class(Class),
    /// A class version other than 2.
    ClassVersion(u8),
    /// A method other than Send.
    Method(Method),
    /// An attribute ID that no message has.
    Attribute(AttrId),
}

impl std::fmt::Display for CmError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CmError::BaseVersion(v) => write!(f, "MAD base version {v}, want {}", MadHeader::BASE_VERSION),
            CmError::Class(class) => write!(f, "management class 0x{:02x}, want 0x{:02x}", class.0, Class::CM.0),
            CmError::ClassVersion(v) => write!(f, "CM class version {v}, want {CLASS_VERSION}"),
            CmError::Method(method) => write!(f, "method 0x{:02x}, want Send", method.0),
            CmError::Attribute(id) => write!(f, "attribute 0x{:04x} is no CM message", id.0),
        }
    }
}

impl std::error::Error for CmError {}

macro_rules! messages {
    ($($(#[$doc:meta])* $name:ident($attr:ident = $id:expr, $text:expr),)*) => {
        impl AttrId {
            $($(#[$doc])* pub const $attr: AttrId = AttrId($id);)*
        }

        /// A CM message.
        #[derive(Clone, PartialEq, Eq, Debug)]
        #[allow(clippy::large_enum_variant)] // Each variant is about as long as the datagram that carried it.
        pub enum CmMessage {
            $($(#[$doc])* $name($name),)*
        }

        impl CmMessage {
            /// Attribute IDs and names of all messages.
            pub const ALL: &[(AttrId, &str)] = &[$((AttrId::$attr, $text)),*];

            /// Reads the data of a datagram with this attribute ID; `None` if no message has it.
            pub fn parse(attr_id: AttrId, data: &MadData) -> Option<CmMessage> {
                match attr_id {
                    $(AttrId::$attr => Some(CmMessage::$name($name::parse(data))),)*
                    _ => None,
                }
            }

            /// Encodes the data.
            pub fn encode(&self) -> MadData {
                match self {
                    $(CmMessage::$name(message) => message.encode(),)*
                }
            }

            /// Returns the attribute ID.
            pub fn attr_id(&self) -> AttrId {
                match self {
                    $(CmMessage::$name(_) => AttrId::$attr,)*
                }
            }

            /// Returns its private data, trailing zeros included.
            pub fn private_data(&self) -> &[u8] {
                match self {
                    $(CmMessage::$name(message) => message.private_data.as_slice(),)*
                }
            }

            /// Returns its name in the specification.
            pub fn name(&self) -> &'static str {
                match self {
                    $(CmMessage::$name(_) => $text,)*
                }
            }
        }

        $(impl From<$name> for CmMessage {
            fn from(message: $name) -> CmMessage {
                CmMessage::$name(message)
            }
        })*

        #[cfg(test)]
        type Layout = Vec<(&'static str, Vec<(usize, usize)>)>;

        #[cfg(test)]
        fn layouts() -> Vec<(&'static str, Layout)> {
            vec![$(($text, $name::layout()),)*]
        }
    };
}

messages! {
    /// Request for communication.
    Req(CM_REQ = 0x0010, "REQ"),
    /// Message receipt acknowledgement.
    Mra(CM_MRA = 0x0011, "MRA"),
    /// Reject.
    Rej(CM_REJ = 0x0012, "REJ"),
    /// Reply.
    Rep(CM_REP = 0x0013, "REP"),
    /// Ready to use.
    Rtu(CM_RTU = 0x0014, "RTU"),
    /// Disconnection request.
    Dreq(CM_DREQ = 0x0015, "DREQ"),
    /// Disconnection reply.
    Drep(CM_DREP = 0x0016, "DREP"),
    /// Service ID resolution request.
    SidrReq(CM_SIDR_REQ = 0x0017, "SIDR_REQ"),
    /// Service ID resolution response.
    SidrRep(CM_SIDR_REP = 0x0018, "SIDR_REP"),
    /// Load alternate path.
    Lap(CM_LAP = 0x0019, "LAP"),
    /// Alternate path response.
    Apr(CM_APR = 0x001a, "APR"),
}

impl CmMessage {
    /// Reads the message of a datagram with a CM header. Like Linux, ignores the status.
    pub fn from_mad(mad: &Mad) -> Result<CmMessage, CmError> {
        let header = &mad.header;
        if header.base_version() != MadHeader::BASE_VERSION {
            return Err(CmError::BaseVersion(header.base_version()));
        }
        if header.class() != Class::CM {
            return Err(CmError::Class(header.class()));
        }
        if header.class_version() != CLASS_VERSION {
            return Err(CmError::ClassVersion(header.class_version()));
        }
        if header.method() != Method::SEND {
            return Err(CmError::Method(header.method()));
        }
        CmMessage::parse(header.attr_id(), &mad.data).ok_or(CmError::Attribute(header.attr_id()))
    }

    /// Builds the datagram that carries it, with this transaction ID. [`MadHeader::with_attr_mod`] sets an attribute
    /// modifier (the options of enhanced connection establishment) on the header.
    pub fn to_mad(&self, tid: u64) -> Mad {
        let header = MadHeader::new(Class::CM, CLASS_VERSION, Method::SEND, tid, self.attr_id());
        Mad { header, data: self.encode() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mad::DATA_LEN;

    #[test]
    fn no_two_fields_share_a_bit() {
        for (message, layout) in layouts() {
            let mut owner = [None; DATA_LEN * 8];
            for (field, spans) in layout {
                for bit in spans.iter().flat_map(|(first, width)| *first..first + width) {
                    assert_eq!(owner[bit].replace(field), None, "{message}.{field} at byte {}", bit / 8);
                }
            }
            // Private data comes last and fills the datagram.
            assert_eq!(owner[DATA_LEN * 8 - 1], Some("private_data"), "{message}");
        }
    }

    #[test]
    fn every_message_has_its_own_attribute() {
        for (id, name) in CmMessage::ALL {
            let message = CmMessage::parse(*id, &[0; DATA_LEN]).expect("listed");
            assert_eq!((message.attr_id(), message.name()), (*id, *name));
            assert_eq!(CmMessage::from_mad(&message.to_mad(7)), Ok(message));
        }
        assert_eq!(CmMessage::ALL.len(), 11);
        assert_eq!(CmMessage::parse(AttrId(0x000f), &[0; DATA_LEN]), None);
    }

    #[test]
    fn a_datagram_of_another_class_is_none() {
        let mad = CmMessage::Rtu(Rtu::default()).to_mad(1);
        let with = |class, version, method, attr| {
            let header = MadHeader::new(class, version, method, 1, attr);
            CmMessage::from_mad(&Mad { header, ..mad })
        };
        let (cm, send, rtu) = (Class::CM, Method::SEND, AttrId::CM_RTU);
        assert!(with(cm, CLASS_VERSION, send, rtu).is_ok());
        assert_eq!(with(Class::SUBN_ADM, CLASS_VERSION, send, rtu), Err(CmError::Class(Class::SUBN_ADM)));
        assert_eq!(with(cm, 1, send, rtu), Err(CmError::ClassVersion(1)));
        assert_eq!(with(cm, CLASS_VERSION, Method::GET, rtu), Err(CmError::Method(Method::GET)));
        assert_eq!(with(cm, CLASS_VERSION, send, AttrId(1)), Err(CmError::Attribute(AttrId(1))));
        let old = Mad { header: mad.header.with_base_version(2), ..mad };
        assert_eq!(CmMessage::from_mad(&old), Err(CmError::BaseVersion(2)));
    }

    #[test]
    fn private_data_has_its_legal_length() {
        assert!(PrivateData::<4>::new(&[1; 5]).is_err());
        assert_eq!(PrivateData::<4>::new(&[1; 3]).unwrap().as_slice(), [1, 1, 1, 0]);
        let (start, max) = (140, REQ_PRIVATE_MAX);
        assert_eq!(start + max, DATA_LEN);
        assert!(RejectReason::ALL.iter().all(|r| r.text().is_some()));
        assert_eq!(RejectReason::STALE_CONN.to_string(), "stale connection (10)");
        assert_eq!(format!("{:?}", RejectReason(999)), "RejectReason(999)");
    }
}
