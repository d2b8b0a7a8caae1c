//! The protocols' common parts, for the server's end and for the client's: XDR, the status of NFSv3, `sattr3`, and
//! constants.

pub mod credential;
pub mod new_attributes;
pub mod rpc;
pub mod status;
pub mod xdr;
