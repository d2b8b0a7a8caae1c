//! Insertion of a reply's results, which are in write chunks, into the message (RFC 8166 §3.4.6).

use super::fields::Item;
use crate::wire::xdr::pad_len;

/// Returns the whole reply. `None`: a chunk was written for which the reply has no result.
pub(super) fn insert(reply: &[u8], items: &[Item], results: &[&[u8]]) -> Option<Vec<u8>> {
    let has_item = |(index, data): (usize, &&[u8])| data.is_empty() || index < items.len();
    if !results.iter().enumerate().all(has_item) {
        return None;
    }
    let mut whole = Vec::with_capacity(reply.len() + results.iter().map(|data| data.len() + 3).sum::<usize>());
    let mut at = 0;
    for (item, data) in items.iter().zip(results).filter(|(_, data)| !data.is_empty()) {
        whole.extend_from_slice(reply.get(at..item.at)?);
        whole.extend_from_slice(data);
        whole.resize(whole.len() + pad_len(data.len()), 0);
        at = item.at;
    }
    whole.extend_from_slice(reply.get(at..)?);
    Some(whole)
}
