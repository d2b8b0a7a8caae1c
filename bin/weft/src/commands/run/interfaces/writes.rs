//! Effects of writing the attributes of an IPoIB interface, as Linux's ib_ipoib has them.

use rustix::io::Errno;
use weft_ipc::{Client, IpoibInterface, Refusal, RequestError};

/// Applies a text that was written to an attribute.
///
/// # Errors
/// The errno value is that of Linux's write(2) there.
pub fn apply(client: &mut Client, interface: &IpoibInterface, name: &str, text: &str) -> Result<(), RequestError> {
    match name {
        "mode" => set_mode(client, interface, text),
        "umcast" => match number(text) {
            Some(0) => Ok(()),
            Some(_) => Err(refused(Errno::OPNOTSUPP, "groups that programs join by verbs are not the interface's")),
            None => Err(refused(Errno::INVAL, "umcast is 0 or 1")),
        },
        "create_child" => client.add_ipoib_child(&interface.name, pkey(text)?, None),
        "delete_child" => client.delete_ipoib_child(&interface.name, pkey(text)?),
        _ => Err(refused(Errno::ACCESS, "the attribute is read-only")),
    }
}

/// Sets an interface's mode.
pub fn set_mode(client: &mut Client, interface: &IpoibInterface, text: &str) -> Result<(), RequestError> {
    let connected = match text.trim_end_matches('\n') {
        "connected" => true,
        "datagram" => false,
        _ => return Err(refused(Errno::INVAL, "the modes are connected and datagram")),
    };
    if connected == interface.is_connected() {
        return Ok(());
    }
    client.set_ipoib_mode(&interface.name, connected)
}

fn pkey(text: &str) -> Result<u16, RequestError> {
    let pkey = number(text).and_then(|number| u16::try_from(number).ok());
    pkey.ok_or_else(|| refused(Errno::INVAL, "a P_Key is a number of 16 bits, such as 0x8002"))
}

/// Reads a number as C does: hexadecimal after 0x, octal after 0, otherwise decimal.
pub fn number(text: &str) -> Option<u64> {
    let text = text.trim();
    match (text.strip_prefix("0x").or(text.strip_prefix("0X")), text.strip_prefix('0')) {
        (Some(hexadecimal), _) => u64::from_str_radix(hexadecimal, 16).ok(),
        (None, Some(octal)) if !octal.is_empty() => u64::from_str_radix(octal, 8).ok(),
        _ => text.parse().ok(),
    }
}

fn refused(errno: Errno, text: &str) -> RequestError {
    RequestError::Refused(Refusal { errno: errno.raw_os_error(), text: text.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_c_reads_them() {
        assert_eq!(
            (number("0x8002\n"), number("32770"), number("0100002")),
            (Some(0x8002), Some(0x8002), Some(0x8002))
        );
        assert_eq!(
            (number("0"), number("0x"), number("x"), number(""), number("09")),
            (Some(0), None, None, None, None)
        );
    }
}
