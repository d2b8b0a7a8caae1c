//! Asynchronous events and completion events.

use crate::{Cookie, CqId, DeviceId, QpId, SrqId};

/// `enum ibv_event_type`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
#[allow(missing_docs)] // The names are verbs.h's; IBA 11.6.3 says what each means.
pub enum AsyncEvent {
    CqErr = 0,
    QpFatal = 1,
    QpReqErr = 2,
    QpAccessErr = 3,
    CommEst = 4,
    SqDrained = 5,
    PathMig = 6,
    PathMigErr = 7,
    DeviceFatal = 8,
    PortActive = 9,
    PortErr = 10,
    LidChange = 11,
    PkeyChange = 12,
    SmChange = 13,
    SrqErr = 14,
    SrqLimitReached = 15,
    QpLastWqeReached = 16,
    ClientReregister = 17,
    GidChange = 18,
}

/// Subject of an asynchronous event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AsyncSubject {
    /// A completion queue.
    Cq(CqId),
    /// A queue pair.
    Qp(QpId),
    /// A shared receive queue.
    Srq(SrqId),
    /// A port of the device.
    Port(u8),
    /// The device.
    Device,
}

/// An event for the owner of the objects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// An armed CQ got a completion of the kind it was armed for.
    Completion {
        /// The CQ.
        cq: CqId,
        /// Its owner's cookie.
        cookie: Cookie,
    },
    /// An asynchronous event.
    Async {
        /// The device.
        device: DeviceId,
        /// The kind of event.
        event: AsyncEvent,
        /// The object or port that the event is about.
        subject: AsyncSubject,
        /// Cookie of the object; 0 for ports and devices.
        cookie: Cookie,
    },
}
