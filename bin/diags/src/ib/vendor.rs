//! Vendor classes: those without OUI, and OpenIB's.

use super::address::PortId;
use super::mad::{GET, MAD_LEN, Request, SET, data_at};
use super::port::{MadError, Port};

/// A vendor-class request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Call<'a> {
    /// Management class.
    pub class: u8,
    /// Get or Set.
    pub method: u8,
    /// Attribute.
    pub attribute: u16,
    /// Attribute modifier.
    pub modifier: u32,
    /// The vendor's OUI, for classes that have one.
    pub oui: u32,
    /// The attribute's bytes; the rest is 0.
    pub data: &'a [u8],
    /// How long to wait for an answer; 0 means the default timeout.
    pub timeout_ms: u32,
}

impl Port {
    /// Sends a request and returns the class's data in the answer.
    ///
    /// # Errors
    /// No answer, or a bad one; or `to` has no LID.
    pub fn vendor_call(&mut self, to: &PortId, call: &Call<'_>) -> Result<Vec<u8>, MadError> {
        if to.lid == 0 || !matches!(call.method, GET | SET) {
            return Err(MadError { status: 0, errno: libc::EINVAL });
        }
        let request = Request {
            class: call.class,
            method: call.method,
            attribute: call.attribute,
            modifier: call.modifier,
            oui: call.oui,
            data: call.data,
            timeout_ms: call.timeout_ms,
            ..Request::default()
        };
        let mut answer = self.rpc_rmpp(&request, to)?;
        answer.resize(answer.len().max(MAD_LEN), 0);
        Ok(answer.split_off(data_at(call.class)))
    }
}
