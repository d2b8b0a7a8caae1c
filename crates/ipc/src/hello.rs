//! The first message each way. Its form never changes, whatever the protocol's number, and it needs no decoder that
//! might change: a program and a daemon of different versions can still tell each other so, and a program can still
//! stop the daemon.
//!
//! ```text
//! Hello:      "WEFT" | protocol u32 | purpose u8 | length u8  | program name
//!             | length u8 | host name | length u8 | faults; a hello may end before either
//! HelloReply: "WEFD" | protocol u32 | status u8  | length u16 | text            (little-endian)
//! ```

use crate::PROTOCOL_VERSION;
use crate::limits::{FAULT_BYTES_MAX, HOST_NAME_BYTES_MAX, PROGRAM_NAME_BYTES_MAX};
use crate::printable::printable;

const HELLO_MAGIC: [u8; 4] = *b"WEFT";
const REPLY_MAGIC: [u8; 4] = *b"WEFD";
const REPLY_TEXT_BYTES_MAX: usize = 1024;

/// Why a program connects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// To use devices.
    Session,
    /// To end the daemon.
    Stop,
}

/// A program's first message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hello {
    /// Protocol version of the program.
    pub protocol: u32,
    /// Purpose of the connection.
    pub purpose: Purpose,
    /// Name for `weft status`; not trusted for anything.
    pub program: String,
    /// Virtual host that it runs as; empty for the machine itself. Older programs omit it.
    pub host: String,
    /// Faults that it requests (`WEFT_FAULT`); the daemon also applies them to its packets on queue pair 1.
    pub fault: String,
}

/// The daemon's verdict on a hello.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HelloStatus {
    /// The session begins.
    Welcome,
    /// The protocols differ; the connection ends.
    OtherVersion,
    /// The daemon refuses the program, the text says why; the connection ends.
    Refused,
    /// The daemon stops.
    Stopping,
    /// There is no such virtual host, the text says why; the connection ends.
    NoHost,
}

/// The daemon's first message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HelloReply {
    /// Protocol version of the daemon.
    pub protocol: u32,
    /// Verdict.
    pub status: HelloStatus,
    /// Explanation for a person.
    pub text: String,
}

fn cut(text: &str, bytes_max: usize) -> &str {
    let mut end = text.len().min(bytes_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

impl Hello {
    /// Makes a hello in this protocol version; truncates the name to its limit.
    pub fn new(purpose: Purpose, program: &str) -> Hello {
        let program = cut(program, PROGRAM_NAME_BYTES_MAX).to_owned();
        Hello { protocol: PROTOCOL_VERSION, purpose, program, host: String::new(), fault: String::new() }
    }

    /// Sets the virtual host.
    #[must_use]
    pub fn with_host(self, host: &str) -> Hello {
        Hello { host: cut(host, HOST_NAME_BYTES_MAX).to_owned(), ..self }
    }

    /// Sets the faults. A text that is too long counts as none.
    #[must_use]
    pub fn with_fault(self, fault: &str) -> Hello {
        let fault = if fault.len() <= FAULT_BYTES_MAX { fault.to_owned() } else { String::new() };
        Hello { fault, ..self }
    }

    /// Returns the bytes on the socket.
    pub fn encode(&self) -> Vec<u8> {
        let program = cut(&self.program, PROGRAM_NAME_BYTES_MAX);
        let mut out = Vec::with_capacity(10 + program.len());
        out.extend(HELLO_MAGIC);
        out.extend(self.protocol.to_le_bytes());
        out.push(match self.purpose {
            Purpose::Session => 0,
            Purpose::Stop => 1,
        });
        out.push(program.len() as u8);
        out.extend(program.as_bytes());
        let host = cut(&self.host, HOST_NAME_BYTES_MAX);
        let fault = cut(&self.fault, FAULT_BYTES_MAX);
        if !host.is_empty() || !fault.is_empty() {
            out.push(host.len() as u8);
            out.extend(host.as_bytes());
        }
        if !fault.is_empty() {
            out.push(fault.len() as u8);
            out.extend(fault.as_bytes());
        }
        out
    }

    /// Decodes a hello; `None` if the bytes are not one. Ignores bytes that a later version appends.
    pub fn decode(bytes: &[u8]) -> Option<Hello> {
        let rest = bytes.strip_prefix(&HELLO_MAGIC)?;
        let (protocol, rest) = rest.split_first_chunk()?;
        let (&[purpose, length], rest) = rest.split_first_chunk()?;
        let (program, rest) = rest.split_at_checked(usize::from(length))?;
        let (host, rest) = match rest.split_first() {
            None => (&[][..], rest),
            Some((&length, rest)) => rest.split_at_checked(usize::from(length))?,
        };
        let fault = rest.split_first().and_then(|(&length, rest)| rest.get(..usize::from(length))).unwrap_or_default();
        let purpose = match purpose {
            0 => Purpose::Session,
            1 => Purpose::Stop,
            _ => return None,
        };
        let (program, host) = (String::from_utf8_lossy(program), String::from_utf8_lossy(host));
        let fault = String::from_utf8_lossy(fault);
        Some(Hello {
            protocol: u32::from_le_bytes(*protocol),
            purpose,
            program: cut(&printable(&program), PROGRAM_NAME_BYTES_MAX).to_owned(),
            host: cut(&printable(&host), HOST_NAME_BYTES_MAX).to_owned(),
            fault: cut(&printable(&fault), FAULT_BYTES_MAX).to_owned(),
        })
    }
}

impl HelloReply {
    /// Makes a reply in this protocol version.
    pub fn new(status: HelloStatus, text: &str) -> HelloReply {
        HelloReply { protocol: PROTOCOL_VERSION, status, text: cut(text, REPLY_TEXT_BYTES_MAX).to_owned() }
    }

    /// Returns the bytes on the socket.
    pub fn encode(&self) -> Vec<u8> {
        let text = cut(&self.text, REPLY_TEXT_BYTES_MAX);
        let mut out = Vec::with_capacity(11 + text.len());
        out.extend(REPLY_MAGIC);
        out.extend(self.protocol.to_le_bytes());
        out.push(match self.status {
            HelloStatus::Welcome => 0,
            HelloStatus::OtherVersion => 1,
            HelloStatus::Refused => 2,
            HelloStatus::Stopping => 3,
            HelloStatus::NoHost => 4,
        });
        out.extend((text.len() as u16).to_le_bytes());
        out.extend(text.as_bytes());
        out
    }

    /// Decodes a reply; `None` if the bytes are not one. Ignores bytes that a later version appends.
    pub fn decode(bytes: &[u8]) -> Option<HelloReply> {
        let rest = bytes.strip_prefix(&REPLY_MAGIC)?;
        let (protocol, rest) = rest.split_first_chunk()?;
        let (&status, rest) = rest.split_first()?;
        let (length, rest) = rest.split_first_chunk()?;
        let text = rest.get(..usize::from(u16::from_le_bytes(*length)))?;
        let status = match status {
            0 => HelloStatus::Welcome,
            1 => HelloStatus::OtherVersion,
            2 => HelloStatus::Refused,
            3 => HelloStatus::Stopping,
            4 => HelloStatus::NoHost,
            _ => return None,
        };
        let text = String::from_utf8_lossy(text);
        Some(HelloReply {
            protocol: u32::from_le_bytes(*protocol),
            status,
            text: cut(&printable(&text), REPLY_TEXT_BYTES_MAX).to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bytes_are_as_they_were_in_the_first_version() {
        let hello =
            Hello { protocol: 7, purpose: Purpose::Stop, program: "ab".into(), ..Hello::new(Purpose::Stop, "") };
        assert_eq!(hello.encode(), b"WEFT\x07\0\0\0\x01\x02ab");
        let hello = hello.with_host("n3");
        assert_eq!(hello.encode(), b"WEFT\x07\0\0\0\x01\x02ab\x02n3");
        assert_eq!(Hello::decode(b"WEFT\x07\0\0\0\x01\x02ab\x02n3later"), Some(hello));
        assert_eq!(Hello::decode(b"WEFT\x07\0\0\0\x01\x02ab\x03n3"), None);
        let faulty = Hello { host: String::new(), ..Hello::decode(b"WEFT\x07\0\0\0\x01\x02ab").unwrap() };
        assert_eq!(faulty.with_fault("loss=1%").encode(), b"WEFT\x07\0\0\0\x01\x02ab\0\x07loss=1%");
        let reply = HelloReply { protocol: 9, status: HelloStatus::Refused, text: "no".into() };
        assert_eq!(reply.encode(), b"WEFD\x09\0\0\0\x02\x02\0no");
        let later = [reply.encode(), b"more".to_vec()].concat();
        assert_eq!(HelloReply::decode(&later), Some(reply));
    }

    proptest! {
        #[test]
        fn round_trip(protocol: u32, program in "\\PC{0,80}", host in "\\PC{0,200}", fault in "\\PC{0,80}", stop: bool) {
            let purpose = if stop { Purpose::Stop } else { Purpose::Session };
            let hello = Hello { protocol, ..Hello::new(purpose, &program).with_host(&host).with_fault(&fault) };
            prop_assert_eq!(Hello::decode(&hello.encode()), Some(hello));
            let reply = HelloReply::new(HelloStatus::OtherVersion, &program);
            prop_assert_eq!(HelloReply::decode(&reply.encode()), Some(reply));
        }

        #[test]
        fn any_bytes_are_survived(bytes: Vec<u8>, magic: bool) {
            let bytes = if magic { [&HELLO_MAGIC[..], &bytes].concat() } else { bytes };
            let _ = Hello::decode(&bytes);
            let _ = HelloReply::decode(&bytes);
        }
    }
}
