//! Login string: what ib_srp's `add_target` takes, and what a target prints.

use weft_srp::device_management::IO_CLASS_16A;
use weft_srp::limits::SRP_PORT;

use crate::hex::{gid, number, pkey};

/// Target, and the part of this initiator's identifier that is chosen.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Login {
    /// Extension of the target's identifier.
    pub id_ext: Option<u64>,
    /// GUID of the target's controller.
    pub ioc_guid: Option<u64>,
    /// Address or name of the target, and its port.
    pub dest: Option<(String, u16)>,
    /// GID of the target's port.
    pub dgid: Option<[u8; 16]>,
    /// P_Key of the path.
    pub pkey: Option<u16>,
    /// Service identifier of the target.
    pub service_id: Option<u64>,
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
            "dgid" => login.dgid = Some(gid(value).map_err(wrong)?),
            "pkey" => login.pkey = Some(pkey(value).map_err(wrong)?),
            "service_id" => login.service_id = Some(number(value).map_err(wrong)?),
            "io_class" => must_be_16a(value).map_err(wrong)?,
            _ => {
                let known = "id_ext, ioc_guid, dest, dgid, pkey, service_id, initiator_ext, queue_size and io_class";
                return Err(wrong(format!("not supported; {known} are")));
            }
        }
    }
    Ok(login)
}

/// Checks that the I/O class is that of SRP revision 16a: targets of revision 10 have another order in their identifiers.
fn must_be_16a(value: &str) -> Result<(), String> {
    match number(value)? {
        class if class == u64::from(IO_CLASS_16A) => Ok(()),
        other => Err(format!("{other:#06x} is not supported; {IO_CLASS_16A:#06x} (revision 16a) is")),
    }
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
            ..Login::default()
        };
        assert_eq!(found, Ok(expected));
        assert_eq!(parse(""), Ok(Login::default()));
        // As ibsrpdm -c prints it.
        let of_fabric = "id_ext=3bd5c9e2a1f04c77,ioc_guid=3bd5c9e2a1f04c77,dgid=fe800000000000000257450100000601,\
                         pkey=ffff,service_id=00000000013f15b3,io_class=0100";
        let found = parse(of_fabric).expect("a login");
        assert_eq!((found.pkey, found.service_id, found.dest), (Some(0xffff), Some(0x013f_15b3), None));
        assert_eq!(found.dgid.map(|gid| (gid[0], gid[15])), Some((0xfe, 1)));
        for wrong in [
            "id_ext",
            "id_ext=x",
            "dgid=fe80",
            "pkey=fffff",
            "io_class=ff00",
            "ch_count=3",
            "dest=",
            "queue_size=0",
            "ioc_guid=12345678123456781",
        ] {
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
