//! Subscriptions to notices (IBA 15.2.5.12).

use super::component::components;
use crate::layout::{Bytes, int, message, within};
use crate::mad::InformInfo;

message! {
    /// InformInfoRecord.
    #[derive(Copy)]
    InformInfoRecord[60] {
        /// GID of the subscriber.
        subscriber_gid: [u8; 16] = Bytes(0),
        /// Index of the subscription.
        subscriber_enum: u16 = int(16, 2),
        /// The subscription.
        inform_info: InformInfo = within(24, 36),
    }
}

components! {
    InformInfoRecord {
        SUBSCRIBER_GID = 128, SUBSCRIBER_ENUM = 16, RESERVED0 = 48, GID = 128, LID_RANGE_BEGIN = 16,
        LID_RANGE_END = 16, RESERVED1 = 16, IS_GENERIC = 8, SUBSCRIBE = 8, TYPE = 16, TRAP_NUMBER = 16, QPN = 24,
        RESERVED2 = 3, RESP_TIME_VALUE = 5, RESERVED3 = 8, PRODUCER_TYPE = 24,
    }
}
