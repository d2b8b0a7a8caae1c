//! Routers by prefix (`prefix_routes_file`): the first line that matches a GID of another subnet gives the router.

use super::ENTRIES_MAX;
use crate::options::{Diagnostic, Diagnostics, clip, lines};

/// A line of the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PrefixRoute {
    /// Upper half of the GID; `None` for any.
    pub prefix: Option<u64>,
    /// PortGUID of the router's port; `None` for any router.
    pub router: Option<u64>,
}

impl PrefixRoute {
    /// Whether the line covers a prefix.
    pub fn matches(&self, prefix: u64) -> bool {
        self.prefix.is_none_or(|own| own == prefix)
    }
}

/// Parses lines of prefix and GUID, in hexadecimal with or without `0x`; `*` for any.
pub fn prefix_routes(text: &str, file: &str) -> (Vec<PrefixRoute>, Vec<Diagnostic>) {
    let mut diagnostics = Diagnostics::of(file);
    let mut routes: Vec<PrefixRoute> = Vec::new();
    for (at, line) in lines(text).take(ENTRIES_MAX) {
        let words: Vec<&str> = line.split_whitespace().take(3).collect();
        let route = match words.as_slice() {
            [prefix, router] => half(prefix).and_then(|prefix| Ok(PrefixRoute { prefix, router: half(router)? })),
            _ => Err("a line has a prefix and a GUID".to_owned()),
        };
        match route {
            Err(wrong) => {
                diagnostics.error((at, 1), format!("{wrong}; the line is passed over"), "write PREFIX GUID, * for any")
            }
            Ok(route) => {
                if routes.iter().any(|former| former.prefix.is_none()) {
                    diagnostics.warning(
                        (at, 1),
                        "a line above with * is about every prefix, so this one never counts",
                        "write it above",
                    );
                }
                routes.push(route);
            }
        }
    }
    (routes, diagnostics.into_list())
}

fn half(word: &str) -> Result<Option<u64>, String> {
    if word == "*" {
        return Ok(None);
    }
    let digits = word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")).unwrap_or(word);
    let plain = !digits.is_empty() && digits.len() <= 16 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let value = plain.then(|| u64::from_str_radix(digits, 16).ok()).flatten();
    value.map(Some).ok_or_else(|| format!("{} is no hexadecimal number of 16 digits", clip(word)))
}

#[test]
fn the_first_match_counts() {
    let (routes, diagnostics) = prefix_routes("fec0000000000001 0x10 # b\n* 11\nfec0000000000002 *\nx y\n1\n", "p");
    let pairs: Vec<_> = routes.iter().map(|route| (route.prefix, route.router)).collect();
    let (one, two) = (0xfec0_0000_0000_0001, 0xfec0_0000_0000_0002);
    assert_eq!(pairs, [(Some(one), Some(0x10)), (None, Some(0x11)), (Some(two), None)]);
    assert_eq!(routes.iter().position(|route| route.matches(two)), Some(1));
    assert_eq!(diagnostics.len(), 3);
}
