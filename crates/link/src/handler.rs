//! Handler of received datagrams.

use crate::datagram::Datagram;
use crate::stats::LinkStats;

/// Handler of each datagram.
pub trait Each: FnMut(&Datagram<'_>, &mut LinkStats) {}
impl<F: FnMut(&Datagram<'_>, &mut LinkStats)> Each for F {}
