//! Login string: what ib_srp's `add_target` takes, and what a target prints.

use weft_srp::limits::SRP_PORT;

use crate::hex::number;

/// Target, and the part of this initiator's identifier that is chosen.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Login {
    /// Extension of the target's identifier.
    pub id_ext: Option<u64>,
    /// GUID of the target's controller.
    pub ioc_guid: Option<u64>,
    /// Address or name of the target, and its port.
    pub dest: Option<(String, u16)>,
    /// Extension of the initiator's identifier.
    pub initiator_ext: Option<u64>,
    /// Commands in progress.
    pub queue_size: Option<u16>,
}

/// Reads a login string: `NAME=VALUE,...`.
///
/// # Errors
/// The reason why it cannot be used.
pub fn parse(text: &str) -> Result<Login, String> {
    let mut login = Login::default();
    for word in text.trim().split([',', '\n']).filter(|word| !word.is_empty()) {
        let (name, value) = word.split_once('=').ok_or_else(|| format!("`{word}`: not NAME=VALUE"))?;
        let wrong = |reason: String| format!("{name}: {reason}");
        match name {
            "id_ext" => login.id_ext = Some(number(value).map_err(wrong)?),
            "ioc_guid" => login.ioc_guid = Some(number(value).map_err(wrong)?),
            "initiator_ext" => login.initiator_ext = Some(number(value).map_err(wrong)?),
            "dest" => login.dest = Some(dest(value).map_err(wrong)?),
            "queue_size" => {
                let size = value.parse().ok().filter(|size| *size > 0);
                login.queue_size = Some(size.ok_or_else(|| wrong("not a number of commands".to_owned()))?);
            }
            "dgid" | "service_id" | "pkey" => {
                return Err(wrong(
                    "logins by InfiniBand's service identifiers are not supported; give dest=ADDRESS:PORT".into(),
                ));
            }
            _ => {
                let known = "id_ext, ioc_guid, dest, initiator_ext and queue_size";
                return Err(wrong(format!("not supported; {known} are")));
            }
        }
    }
    Ok(login)
}

/// Reads `ADDRESS:PORT`, `[ADDRESS]:PORT` or `NAME:PORT`; the port may be left out.
///
/// # Errors
/// It is something else.
pub fn dest(text: &str) -> Result<(String, u16), String> {
    let wrong = || format!("`{text}`: not ADDRESS:PORT, or [ADDRESS]:PORT for IPv6");
    let (address, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (address, rest) = rest.split_once(']').ok_or_else(wrong)?;
            (address, rest.strip_prefix(':').or(rest.is_empty().then_some("")).ok_or_else(wrong)?)
        }
        None => text.split_once(':').unwrap_or((text, "")),
    };
    let port = if port.is_empty() { SRP_PORT } else { port.parse().map_err(|_| wrong())? };
    if address.is_empty() { Err(wrong()) } else { Ok((address.to_owned(), port)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_a_target_is_a_login() {
        let found = parse("id_ext=feedfacecafe0001,ioc_guid=0xfeedfacecafe0002,dest=192.0.2.1:5556,initiator_ext=7\n");
        let expected = Login {
            id_ext: Some(0xfeed_face_cafe_0001),
            ioc_guid: Some(0xfeed_face_cafe_0002),
            dest: Some(("192.0.2.1".into(), 5556)),
            initiator_ext: Some(7),
            queue_size: None,
        };
        assert_eq!(found, Ok(expected));
        assert_eq!(parse(""), Ok(Login::default()));
        for wrong in
            ["id_ext", "id_ext=x", "dgid=fe80", "ch_count=3", "dest=", "queue_size=0", "ioc_guid=12345678123456781"]
        {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn addresses_have_a_port_or_the_default() {
        assert_eq!(dest("[fd00::1]:99"), Ok(("fd00::1".into(), 99)));
        assert_eq!(dest("[fd00::1]"), Ok(("fd00::1".into(), 5555)));
        assert_eq!(dest("node2"), Ok(("node2".into(), 5555)));
        assert!(["fd00::1", "[fd00::1]9", ":5", "a:b", "[a"].iter().all(|text| dest(text).is_err()));
    }
}
