//! A frame: encapsulation header and packet, as a datagram or a message carries them. A frame of the kernel may be larger
//! than the MTU and without its checksum ([`Offload`]): it crosses to another kernel as it is, or becomes plain frames.

use weft_wire::ipoib::{Encapsulation, HEADER_LEN, Protocol};
use zerocopy::{FromBytes, IntoBytes};

use crate::checksum::complete;
use crate::offload::Offload;
use crate::segment;
use crate::vnet_header::{VNET_HEADER_LEN, VnetHeader};

/// A frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frame {
    bytes: Vec<u8>,
    offload: Offload,
}

/// Plain frames with the same length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// Number of frames.
    pub count: usize,
    /// Bytes of each.
    pub len: usize,
}

impl Frame {
    /// Takes an IP packet of the kernel with the header before it (`struct virtio_net_hdr`). `None`: it is no IP packet, or
    /// the header is not that of this packet.
    pub fn of_kernel(header: &[u8; VNET_HEADER_LEN], packet: &[u8]) -> Option<Frame> {
        let header = VnetHeader::read_from_bytes(header).ok()?;
        let offload = Offload::parse(&header, packet)?;
        Some(Frame { offload, ..Frame::new(Protocol::of_ip(packet)?, packet) })
    }

    /// Encapsulates a packet.
    pub(crate) fn new(protocol: Protocol, packet: &[u8]) -> Frame {
        let mut bytes = Vec::with_capacity(HEADER_LEN + packet.len());
        bytes.extend_from_slice(Encapsulation::new(protocol).as_bytes());
        bytes.extend_from_slice(packet);
        Frame { bytes, offload: Offload::Nothing }
    }

    /// Returns whether it can be sent as it is.
    pub fn is_plain(&self) -> bool {
        self.offload == Offload::Nothing
    }

    /// Returns all bytes: those of a datagram or message, if the frame is plain.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Splits it into protocol and packet; `None` if it is too short.
    pub(crate) fn split(&self) -> Option<(Protocol, &[u8])> {
        Encapsulation::split(&self.bytes)
    }

    /// Returns the packet.
    pub fn packet(&self) -> &[u8] {
        self.bytes.get(HEADER_LEN..).unwrap_or_default()
    }

    /// Returns the header before the packet, for the kernel that receives it.
    pub fn vnet_header(&self) -> [u8; VNET_HEADER_LEN] {
        zerocopy::transmute!(self.offload.header(self.packet()))
    }

    /// Returns the plain frames that it becomes: those with the length of the first, and a last one.
    pub fn runs(&self) -> [Run; 2] {
        let whole = Run { count: 1, len: self.bytes.len() };
        let Offload::Segmentation(how) = &self.offload else { return [Run { count: 0, len: 0 }, whole] };
        let count = segment::count(self.packet(), how).max(1);
        let headers = HEADER_LEN + how.headers;
        let before_last = (count - 1) * how.size.get();
        let first = Run { count: count - 1, len: headers + how.size.get() };
        [first, Run { count: 1, len: self.bytes.len().saturating_sub(before_last) }]
    }

    /// Returns the length of the longest plain frame.
    pub fn len_max(&self) -> usize {
        self.runs().iter().filter(|run| run.count > 0).map(|run| run.len).max().unwrap_or_default()
    }

    /// Returns the plain frames that it becomes.
    pub fn into_plain(self) -> PlainFrames {
        PlainFrames { of: Some(self), next: 0 }
    }
}

/// A frame without work left, such as one that arrived.
impl From<Vec<u8>> for Frame {
    fn from(bytes: Vec<u8>) -> Frame {
        Frame { bytes, offload: Offload::Nothing }
    }
}

/// The plain frames that a frame becomes.
#[derive(Clone, Debug)]
pub struct PlainFrames {
    of: Option<Frame>,
    next: usize,
}

impl Iterator for PlainFrames {
    type Item = Frame;

    fn next(&mut self) -> Option<Frame> {
        let Offload::Segmentation(how) = &self.of.as_ref()?.offload else { return self.of.take().map(completed) };
        let Frame { bytes, .. } = self.of.as_ref()?;
        let (encapsulation, packet) = bytes.split_at_checked(HEADER_LEN)?;
        let mut segment = Vec::with_capacity(HEADER_LEN + how.headers + how.size.get());
        segment.extend_from_slice(encapsulation);
        let is_there = segment::cut(packet, how, self.next, &mut segment);
        self.next += 1;
        is_there.then(|| segment.into())
    }
}

/// Returns a frame that is not cut with its checksum.
fn completed(mut frame: Frame) -> Frame {
    if let Offload::Checksum(field) = std::mem::take(&mut frame.offload) {
        complete(frame.bytes.get_mut(HEADER_LEN..).unwrap_or_default(), field.start, field.at);
    }
    frame
}

#[cfg(test)]
mod tests;
