//! Members of multicast groups, as Linux shows them: by the Ethernet addresses that its interfaces receive.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::lab::{Lab, Side};
use crate::user::Who;

/// File with these addresses, in the reader's network namespace.
pub const ADDRESSES: &str = "/proc/net/dev_mcast";
/// Time limit for a program to join.
pub const JOINS_WITHIN: Duration = Duration::from_secs(20);
/// Interval of checks.
pub const ASK_EVERY: Duration = Duration::from_millis(20);

/// Returns whether an interface receives the packets of a group, from the text of [`ADDRESSES`].
pub fn has_member(addresses: &str, group: IpAddr) -> bool {
    let mac = match group {
        // RFC 1112, 6.4: the last 23 bits.
        IpAddr::V4(group) => {
            let [_, b, c, d] = group.octets();
            format!("01005e{:02x}{c:02x}{d:02x}", b & 0x7f)
        }
        // RFC 2464, 7: the last four bytes.
        IpAddr::V6(group) => {
            let [.., a, b, c, d] = group.octets();
            format!("3333{a:02x}{b:02x}{c:02x}{d:02x}")
        }
    };
    addresses.lines().any(|line| line.split_whitespace().last() == Some(&mac))
}

/// Waits until a program of a side has joined a group.
///
/// # Errors
/// None joined in time.
pub fn wait_for_member(lab: &Lab, side: &Side, group: &str) -> Result<()> {
    let address = group.parse()?;
    let until = Instant::now() + JOINS_WITHIN;
    while Instant::now() < until {
        let addresses = lab.start_bare(side, Who::Root, &["cat", ADDRESSES])?.wait(JOINS_WITHIN);
        if has_member(&addresses.text, address) {
            return Ok(());
        }
        std::thread::sleep(ASK_EVERY);
    }
    bail!("no program joined {group} within {JOINS_WITHIN:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_known_by_the_address_of_their_group() {
        let text = "2    d0              1     0     01005e010203\n2    d0              1     0     333300007709\n";
        let has = |group: &str| has_member(text, group.parse().unwrap());
        assert!(has("239.1.2.3") && has("239.129.2.3") && has("ff1e::7709"));
        assert!(!has("239.1.2.4") && !has("ff1e::7708"));
    }
}
