//! Limits of a connection.

/// Data of one READ or WRITE, in bytes. The protocol lets clients that know no better send as much.
pub const PAYLOAD_BYTES_MAX: u32 = 32 << 20;
/// Memory for the first data of a WRITE, in bytes; it doubles as data arrives.
pub const PAYLOAD_STEP: usize = 1 << 20;
/// Requests in progress on one connection. Later ones wait in the client's socket.
pub const REQUESTS_MAX: usize = 64;
/// Data of the requests in progress on one connection, in bytes; one always fits.
pub const DATA_BYTES_MAX: usize = 64 << 20;
/// Data of an option of the negotiation, in bytes: a name of up to 4096 bytes, and what surrounds it.
pub const OPTION_BYTES_MAX: u32 = 8192;
/// Longest name of an export, in bytes (of the protocol).
pub const NAME_LEN_MAX: usize = 4096;
/// Bytes of answers that wait for the client; the next option is read once fewer wait.
pub const ANSWER_BYTES_MAX: usize = 64 << 10;
/// Bytes received at a time, besides the data of a WRITE: some requests with little data.
pub const RECEIVE_BYTES: usize = 64 << 10;
