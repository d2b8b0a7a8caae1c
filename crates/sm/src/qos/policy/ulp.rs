//! The short rules (`qos-ulps`): `protocol, criterion numbers : service level`.

use super::Ranges;

/// First ServiceID of SDP: one for each TCP port.
const SDP: u64 = 0x1_0000;
/// First ServiceID of RDS and iSER: one for each TCP port.
const TCP: u64 = 0x106_0000;
const RDS_PORT: u64 = 0x48ca;
const ISER_PORT: u64 = 0x0cbc;

/// Criterion of a short rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum By {
    /// All remaining paths.
    Default,
    /// The ServiceID.
    Service(Ranges),
    /// The P_Key.
    Pkey(Ranges),
    /// The destination's PortGUID.
    Target(Ranges),
    /// The source's PortGUID.
    Source(Ranges),
    /// The PortGUID of either.
    Either(Ranges),
}

/// Parses the text before the colon; an error says what is wrong.
pub(super) fn criterion(text: &str, ranges: impl Fn(&str) -> Result<Ranges, String>) -> Result<By, String> {
    let (protocol, rest) = text.split_once(',').map_or((text, None), |(protocol, rest)| (protocol, Some(rest.trim())));
    let protocol = protocol.trim().to_ascii_lowercase();
    let (word, numbers) = match rest {
        None => ("", Ok(Vec::new())),
        Some(rest) => {
            let (word, numbers) = rest.split_once(|c: char| c.is_whitespace()).unwrap_or((rest, ""));
            (word, ranges(numbers.trim()))
        }
    };
    let ports = |base: u64| -> Result<By, String> {
        let ranges = numbers.clone()?;
        if ranges.iter().any(|(_, high)| *high > 0xffff) {
            return Err("a TCP port is above 65535".to_owned());
        }
        Ok(By::Service(ranges.into_iter().map(|(low, high)| (base + low, base + high)).collect()))
    };
    let one = |number: u64| Ok(By::Service(vec![(number, number)]));
    match (protocol.as_str(), word) {
        ("default", "") => Ok(By::Default),
        ("sdp", "") => Ok(By::Service(vec![(SDP, SDP + 0xffff)])),
        ("sdp", "port-num") => ports(SDP),
        ("rds", "") => one(TCP + RDS_PORT),
        ("iser", "") => one(TCP + ISER_PORT),
        ("rds" | "iser", "port-num") => ports(TCP),
        ("ipoib", "") => Ok(By::Pkey(vec![(0x7fff, 0x7fff)])),
        ("ipoib" | "any", "pkey") => Ok(By::Pkey(without_membership(numbers.clone()?))),
        ("srp" | "any", "target-port-guid") => Ok(By::Target(numbers.clone()?)),
        ("any", "source-port-guid") => Ok(By::Source(numbers.clone()?)),
        ("any", "source-target-port-guid") => Ok(By::Either(numbers.clone()?)),
        ("any", "service-id") => Ok(By::Service(numbers.clone()?)),
        _ => Err(format!("{} is no rule of a protocol", crate::options::clip(text))),
    }
}

/// Removes the membership bit from P_Keys.
pub(super) fn without_membership(ranges: Ranges) -> Ranges {
    let both = ranges.into_iter().map(|(low, high)| (low & 0x7fff, high & 0x7fff));
    both.map(|(low, high)| (low.min(high), low.max(high))).collect()
}
