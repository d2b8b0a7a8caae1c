//! Lists in opensm.conf: `vl:weight,...` and the VLs of service levels.

use weft_wire::mad::subn::VlWeight;

use crate::options::{clip, number};

/// Entries of an arbitration table.
pub const ARBITRATION_MAX: usize = 64;
/// Service levels.
pub const SERVICE_LEVELS: usize = 16;
/// The VL that drops packets.
pub const DROP: u8 = 15;

/// A parsed list with its mistakes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct List<T> {
    /// The values, with defaults in place of mistakes.
    pub values: T,
    /// Mistakes, a line each.
    pub wrong: Vec<String>,
}

/// Parses an arbitration table: `vl:weight,...`. An invalid entry becomes VL 0 with weight 0, which arbitration skips.
pub fn arbitration(text: &str) -> List<Vec<VlWeight>> {
    let mut list = List { values: Vec::new(), wrong: Vec::new() };
    for pair in items(text) {
        if list.values.len() == ARBITRATION_MAX {
            list.wrong.push(format!("there are more than {ARBITRATION_MAX} entries: the rest is passed over"));
            break;
        }
        let entry = match pair.split_once(':').map(|(vl, weight)| (number(vl.trim()), number(weight.trim()))) {
            Some((Ok(vl @ 0..15), Ok(weight @ 0..256))) => VlWeight { vl: vl as u8, weight: weight as u8 },
            Some((Ok(0..15), Ok(_))) => {
                list.wrong.push(format!("{}: the weight is above 255, and counts as that", clip(pair)));
                VlWeight {
                    vl: pair.split(':').next().and_then(|vl| number(vl.trim()).ok()).unwrap_or(0) as u8,
                    weight: 255,
                }
            }
            Some((Ok(_), _)) => {
                list.wrong.push(format!("{}: the lane is above 14; the entry is passed over", clip(pair)));
                VlWeight::default()
            }
            _ => {
                list.wrong.push(format!("{} is not lane:weight; the entry is passed over", clip(pair)));
                VlWeight::default()
            }
        };
        list.values.push(entry);
    }
    list
}

/// Parses the VLs of service levels: `vl,...`; unlisted service levels get VL 0.
pub fn lanes(text: &str) -> List<[u8; SERVICE_LEVELS]> {
    let mut list = List { values: [0; SERVICE_LEVELS], wrong: Vec::new() };
    let mut count = 0;
    for (place, item) in items(text).enumerate() {
        count = place + 1;
        let Some(value) = list.values.get_mut(place) else {
            list.wrong.push(format!("there are more than {SERVICE_LEVELS} lanes: the rest is passed over"));
            break;
        };
        match number(item) {
            Ok(vl @ 0..16) => *value = vl as u8,
            _ => list.wrong.push(format!("{} is no lane from 0 to 15; service level {place} has lane 0", clip(item))),
        }
    }
    if count < SERVICE_LEVELS {
        list.wrong.push(format!("there are {count} lanes for {SERVICE_LEVELS} service levels: the others have lane 0"));
    }
    list
}

/// Yields the items between commas; a trailing comma adds none.
fn items(text: &str) -> impl Iterator<Item = &str> {
    let text = text.trim();
    text.strip_suffix(',').unwrap_or(text).split(',').map(str::trim).filter(move |_| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_their_mistakes_told() {
        let list = arbitration("0:4, 14:255,15:3,1:300,x");
        let pairs: Vec<_> = list.values.iter().map(|entry| (entry.vl, entry.weight)).collect();
        assert_eq!(pairs, [(0, 4), (14, 255), (0, 0), (1, 255), (0, 0)]);
        assert_eq!(list.wrong.len(), 3);
        assert!(arbitration("").values.is_empty());
        assert_eq!(arbitration(&"1:1,".repeat(70)).values.len(), ARBITRATION_MAX);
        let list = lanes("0,1,2,3,5,5,5,12,12,0,");
        assert_eq!(list.values[..10], [0, 1, 2, 3, 5, 5, 5, 12, 12, 0]);
        assert_eq!(list.wrong.len(), 1);
        assert!(lanes("0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,7").wrong.is_empty());
        assert_eq!(lanes("0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,7,3").wrong.len(), 1);
    }
}
