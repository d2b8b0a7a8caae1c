//! Corrects the JSON that `ip link` and `ip address` print of IPoIB interfaces. The text of other interfaces stays byte for
//! byte.

use weft_ipc::IpoibInterface;

use super::text::{MTU_MAX, flags, mode};
use crate::commands::run::interfaces::address_text;

/// Corrects a list of objects, compact or pretty.
pub fn correct(output: &str, all: &[IpoibInterface]) -> String {
    let (mut out, mut rest) = (String::new(), output);
    while let Some(from) = rest.find('{')
        && let Some(length) = rest.get(from..).and_then(object_len)
    {
        let (before, object) = (&rest[..from], &rest[from..from + length]);
        out.push_str(before);
        let found = all.iter().find(|one| is_of(object, one));
        out.push_str(&found.map_or_else(|| object.to_owned(), |interface| correct_object(object, interface, all)));
        rest = &rest[from + length..];
    }
    out + rest
}

/// Returns the length of the object at the start of the text.
fn object_len(text: &str) -> Option<usize> {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' if !in_string => depth += 1,
            b'}' if !in_string => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

fn is_of(object: &str, interface: &IpoibInterface) -> bool {
    let value: Option<serde_json::Value> = serde_json::from_str(object).ok();
    let Some(value) = value else { return false };
    match value.get("ifindex").and_then(serde_json::Value::as_u64) {
        Some(index) => index == u64::from(interface.ifindex),
        // With -brief, there are only names.
        None => value.get("ifname").and_then(serde_json::Value::as_str) == Some(&interface.name),
    }
}

fn correct_object(object: &str, interface: &IpoibInterface, all: &[IpoibInterface]) -> String {
    let is_pretty = object.starts_with("{\n");
    let (colon, next) = if is_pretty { (": ", ",\n        ") } else { (":", ",") };
    let mut out = object.to_owned();
    let of_tun: Option<serde_json::Value> = serde_json::from_str(object).ok();
    if let Some(list) = of_tun.as_ref().and_then(|value| value.get("flags")?.as_array()) {
        let names = flags(list.iter().filter_map(serde_json::Value::as_str));
        let names: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
        let list = if is_pretty { format!("[ {} ]", names.join(",")) } else { format!("[{}]", names.join(",")) };
        replace_between(&mut out, &format!("\"flags\"{colon}["), "]", &format!("\"flags\"{colon}{list}"));
    }
    let address = format!("\"address\"{colon}\"{}\"", address_text(&interface.address));
    let link_type = format!("\"link_type\"{colon}\"infiniband\"");
    if out.contains(&link_type) {
        let broadcast = format!("\"broadcast\"{colon}\"{}\"", address_text(&interface.broadcast));
        out = out.replacen(&link_type, &format!("{link_type}{next}{address}{next}{broadcast}"), 1);
    } else if !out.contains("\"ifindex\"") {
        let flags = format!("\"flags\"{colon}");
        out = out.replacen(&flags, &format!("{address}{next}{flags}"), 1);
    }
    if let Some(parent) = interface.parent.and_then(|parent| all.iter().find(|other| other.ifindex == parent)) {
        let name = format!("\"ifname\"{colon}");
        out = out.replacen(&name, &format!("\"link\"{colon}\"{}\"{next}{name}", parent.name), 1);
    }
    out = out.replacen(&format!("\"max_mtu\"{colon}65535"), &format!("\"max_mtu\"{colon}{MTU_MAX}"), 1);
    correct_options(out, interface, colon, is_pretty)
}

/// Replaces the options of a TUN.
fn correct_options(mut out: String, interface: &IpoibInterface, colon: &str, is_pretty: bool) -> String {
    let kind = format!("\"info_kind\"{colon}\"tun\"");
    if !out.contains(&kind) {
        return out;
    }
    out = out.replacen(&kind, &format!("\"info_kind\"{colon}\"ipoib\""), 1);
    let (first, next, last) =
        if is_pretty { ("\n                ", ",\n                ", "\n            ") } else { ("", ",", "") };
    let options = [
        format!("\"key\"{colon}\"{:#06x}\"", interface.pkey),
        format!("\"mode\"{colon}\"{}\"", mode(interface)),
        format!("\"umcast\"{colon}\"0000\""),
    ];
    let data = format!("\"info_data\"{colon}{{{first}{}{last}}}", options.join(next));
    replace_between(&mut out, &format!("\"info_data\"{colon}{{"), "}", &data);
    out
}

/// Replaces what begins and ends with these texts.
fn replace_between(text: &mut String, from: &str, to: &str, with: &str) {
    if let Some(start) = text.find(from)
        && let Some(length) = text.get(start..).and_then(|rest| Some(rest.find(to)? + to.len()))
    {
        text.replace_range(start..start + length, with);
    }
}

#[cfg(test)]
mod tests {
    use super::super::text::tests::{ADDRESS, BROADCAST, interfaces};
    use super::*;

    const LO: &str =
        r#"{"ifindex":1,"ifname":"lo","flags":["LOOPBACK","UP"],"link_type":"loopback","address":"00:00"}"#;

    #[test]
    fn objects_of_ipoib_interfaces_are_corrected_and_others_stay() {
        let tun = r#"{"ifindex":2,"ifname":"ib0","flags":["POINTOPOINT","MULTICAST","NOARP","UP"],"link_type":"infiniband","max_mtu":65535,"linkinfo":{"info_kind":"tun","info_data":{"type":"tun","pi":false}},"gro_max_size":1}"#;
        let corrected = correct(&format!("[{LO},{tun}]\n"), &interfaces());
        let expected = format!(
            r#"[{LO},{{"ifindex":2,"ifname":"ib0","flags":["BROADCAST","MULTICAST","UP"],"link_type":"infiniband","address":"{ADDRESS}","broadcast":"{BROADCAST}","max_mtu":65520,"linkinfo":{{"info_kind":"ipoib","info_data":{{"key":"0xffff","mode":"datagram","umcast":"0000"}}}},"gro_max_size":1}}]"#
        );
        assert_eq!(corrected, format!("{expected}\n"));
        let brief = r#"[{"ifname":"ib0.8002","operstate":"UP","flags":["POINTOPOINT"]}]"#;
        let expected = format!(
            r#"[{{"link":"ib0","ifname":"ib0.8002","operstate":"UP","address":"{ADDRESS}","flags":["BROADCAST"]}}]"#
        );
        assert_eq!(correct(brief, &interfaces()), expected);
    }

    #[test]
    fn pretty_output_stays_pretty() {
        let tun = "[ {\n        \"ifindex\": 2,\n        \"flags\": [ \"NOARP\",\"UP\" ],\n        \"link_type\": \"infiniband\"\n    } ]\n";
        let expected = format!(
            "[ {{\n        \"ifindex\": 2,\n        \"flags\": [ \"BROADCAST\",\"UP\" ],\n        \"link_type\": \"infiniband\",\n        \
             \"address\": \"{ADDRESS}\",\n        \"broadcast\": \"{BROADCAST}\"\n    }} ]\n"
        );
        assert_eq!(correct(tun, &interfaces()), expected);
        for odd in ["", "[]", "[{", "{\"a\":\"}\"}", "no JSON {"] {
            assert_eq!(correct(odd, &interfaces()), odd);
        }
    }
}
