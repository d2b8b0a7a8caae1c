//! Names of interfaces: of a port, or of another partition of it.

use weft_fabric::{Fabric, PKEY_FULL, PortRef};

/// An interface.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct InterfaceId {
    /// Its port.
    pub port: PortRef,
    /// P_Key of a child, with its full-member bit. The port's own interface has the first P_Key of its table.
    pub child: Option<u16>,
}

impl InterfaceId {
    /// Returns the interface of a partition of a port; `None` if no partition has this P_Key.
    pub fn child_of(port: PortRef, pkey: u16) -> Option<InterfaceId> {
        (pkey & !PKEY_FULL != 0).then_some(InterfaceId { port, child: Some(pkey | PKEY_FULL) })
    }

    /// Returns the first and the last name of a port's interfaces.
    pub fn range(port: PortRef) -> std::ops::RangeInclusive<InterfaceId> {
        InterfaceId { port, child: None }..=InterfaceId { port, child: Some(u16::MAX) }
    }

    /// Returns the P_Key in its datagrams: the entry of the port's table, a full member's if there is one. `None`: the
    /// port is no member.
    pub fn pkey(&self, fabric: &Fabric) -> Option<u16> {
        let table = fabric.pkeys(self.port);
        let Some(wanted) = self.child else { return table.first().copied() };
        let members = table.iter().filter(|entry| (*entry ^ wanted) & !PKEY_FULL == 0);
        members.max().copied()
    }
}

impl From<PortRef> for InterfaceId {
    fn from(port: PortRef) -> InterfaceId {
        InterfaceId { port, child: None }
    }
}

impl PartialEq<PortRef> for InterfaceId {
    fn eq(&self, port: &PortRef) -> bool {
        *self == InterfaceId::from(*port)
    }
}
