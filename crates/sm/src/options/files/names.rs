//! Node names (`node_name_map_name`): `GUID "name"` per line, as the diagnostics read it too.

use std::collections::BTreeMap;

use super::by_guid;
use crate::options::Diagnostic;

/// Characters of a name.
const NAME_LEN_MAX: usize = 256;

/// Returns names by node GUID; of two for one node, the first counts.
pub fn names(text: &str, file: &str) -> (BTreeMap<u64, String>, Vec<Diagnostic>) {
    let (pairs, diagnostics) = by_guid(text, file, "GUID \"name\"", |guid, rest| {
        let name = rest.strip_prefix('"').and_then(|rest| rest.split_once('"')).map(|(name, _)| name);
        match name {
            Some("") | None => Err("no name in quotation marks follows the GUID".to_owned()),
            Some(name) => Ok((guid, name.chars().take(NAME_LEN_MAX).collect::<String>())),
        }
    });
    let mut names = BTreeMap::new();
    for (guid, name) in pairs {
        names.entry(guid).or_insert(name);
    }
    (names, diagnostics)
}

#[test]
fn names_stand_in_quotation_marks() {
    let (names, diagnostics) = names("0x10 \"spine 1\"\n0x11 leaf\n0x10 \"other\"\n0x12 \"x\" # y\n", "map");
    assert_eq!(names.into_iter().collect::<Vec<_>>(), [(0x10, "spine 1".to_owned()), (0x12, "x".to_owned())]);
    assert_eq!(diagnostics.len(), 1);
}
