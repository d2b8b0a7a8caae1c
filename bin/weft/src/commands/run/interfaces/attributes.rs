//! The attributes of an IPoIB interface in sysfs, as Linux's ib_ipoib has them.

use std::collections::BTreeMap;

use weft_ipc::{IpoibInterface, LINK_ADDRESS_BYTES};

/// An attribute's file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attribute {
    /// Content.
    pub text: String,
    /// Permissions.
    pub mode: u32,
}

const READ_ONLY: u32 = 0o444;
const READ_WRITE: u32 = 0o644;
const WRITE_ONLY: u32 = 0o200;

/// `ARPHRD_INFINIBAND`.
const LINK_TYPE: u32 = 32;

/// Formats a link-layer address as Linux does.
pub fn address_text(address: &[u8; LINK_ADDRESS_BYTES]) -> String {
    let bytes: Vec<String> = address.iter().map(|byte| format!("{byte:02x}")).collect();
    bytes.join(":")
}

/// Returns the attributes by name. `parent`: the name of the interface that a child was made from.
pub fn attributes(interface: &IpoibInterface, parent: Option<&str>) -> BTreeMap<&'static str, Attribute> {
    let mut all = BTreeMap::new();
    let mut put = |name, mode, text: String| {
        all.insert(name, Attribute { text: if text.is_empty() { text } else { text + "\n" }, mode });
    };
    let port = u32::from(interface.port).saturating_sub(1);
    put("address", READ_ONLY, address_text(&interface.address));
    put("addr_len", READ_ONLY, LINK_ADDRESS_BYTES.to_string());
    put("broadcast", READ_ONLY, address_text(&interface.broadcast));
    put("type", READ_ONLY, LINK_TYPE.to_string());
    put("dev_id", READ_ONLY, format!("{port:#x}"));
    put("dev_port", READ_ONLY, port.to_string());
    put("pkey", READ_ONLY, format!("{:#06x}", interface.pkey));
    put("mode", READ_WRITE, (if interface.is_connected() { "connected" } else { "datagram" }).to_owned());
    put("umcast", READ_WRITE, "0".to_owned());
    match parent {
        Some(parent) => put("parent", READ_ONLY, parent.to_owned()),
        None => {
            put("create_child", WRITE_ONLY, String::new());
            put("delete_child", WRITE_ONLY, String::new());
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_have_the_form_of_linux() {
        let mut address = [0; LINK_ADDRESS_BYTES];
        (address[0], address[3], address[4], address[5]) = (0x80, 0x48, 0xfe, 0x80);
        let interface = IpoibInterface {
            name: "ib1".to_owned(),
            ifindex: 3,
            device: "weft0".to_owned(),
            port: 2,
            pkey: 0x8002,
            parent: None,
            address,
            broadcast: [0xff; LINK_ADDRESS_BYTES],
        };
        let all = attributes(&interface, None);
        let of = |name: &str| all.get(name).map(|attribute| attribute.text.as_str());
        assert_eq!(of("address"), Some("80:00:00:48:fe:80:00:00:00:00:00:00:00:00:00:00:00:00:00:00\n"));
        assert_eq!((of("dev_id"), of("dev_port"), of("pkey")), (Some("0x1\n"), Some("1\n"), Some("0x8002\n")));
        assert_eq!((of("mode"), of("create_child"), of("parent")), (Some("connected\n"), Some(""), None));
        let child = attributes(&interface, Some("ib0"));
        assert!(child.contains_key("parent") && !child.contains_key("create_child"));
    }
}
