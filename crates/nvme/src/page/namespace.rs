//! Identify Namespace and its lists (NVM Express 1.4 §5.15.2.1, §5.15.2.3 and §5.15.2.4).

use super::builder::Builder;
use super::controller::IDENTIFY_LEN;

/// Blocks that read as zeros after Deallocate, and Deallocate by Write Zeroes.
const DEALLOCATED_ARE_ZERO: u8 = 1 | 1 << 3;
const WRITE_PROTECTED: u8 = 1 << 0;
const SHARED: u8 = 1 << 0;

/// Types of unique identifiers.
const NGUID: u8 = 2;
const UUID: u8 = 3;

/// Returns the structure of a namespace of `blocks` blocks of `1 << block_shift` bytes.
pub fn namespace_page(blocks: u64, block_shift: u8, nguid: &[u8; 16], read_only: bool) -> Vec<u8> {
    Builder::new(IDENTIFY_LEN)
        .u64(0, blocks)
        .u64(8, blocks)
        .u64(16, blocks)
        .u8(30, SHARED)
        .u8(33, DEALLOCATED_ARE_ZERO)
        .u8(99, if read_only { WRITE_PROTECTED } else { 0 })
        .bytes(104, nguid)
        // The only format: no metadata.
        .u8(130, block_shift)
        .finish()
}

/// Returns the list of unique identifiers of a namespace.
pub fn unique_ids(nguid: &[u8; 16], uuid: &[u8; 16]) -> Vec<u8> {
    let mut list = Builder::new(IDENTIFY_LEN);
    let mut at = 0;
    for (kind, id) in [(NGUID, nguid), (UUID, uuid)] {
        if *id != [0; 16] {
            list = list.u8(at, kind).u8(at + 1, 16).bytes(at + 4, id);
            at += 4 + id.len();
        }
    }
    list.finish()
}

/// Returns a list of namespace identifiers in ascending order.
pub fn namespace_ids(ids: impl Iterator<Item = u32>) -> Vec<u8> {
    let bytes: Vec<u8> = ids.flat_map(u32::to_le_bytes).collect();
    Builder::new(IDENTIFY_LEN).bytes(0, &bytes).finish()
}

/// Returns a list of controller identifiers, after their number.
pub fn number_list(ids: &[u16]) -> Vec<u8> {
    let ids = ids.get(..ids.len().min(IDENTIFY_LEN / 2 - 1)).unwrap_or_default();
    let bytes: Vec<u8> = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
    Builder::new(IDENTIFY_LEN).u16(0, ids.len() as u16).bytes(2, &bytes).finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_has_one_format() {
        let page = namespace_page(0x0102, 12, &[9; 16], true);
        assert_eq!((&page[..2], page[25], page[26], page[99], page[130]), (&[2, 1][..], 0, 0, 1, 12));
        assert_eq!(page[104..120], [9; 16]);
    }

    #[test]
    fn lists_end_with_zeros() {
        assert_eq!(namespace_ids([1, 3].into_iter())[..12], [1, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(number_list(&[5, 6])[..8], [2, 0, 5, 0, 6, 0, 0, 0]);
        let ids = unique_ids(&[0; 16], &[4; 16]);
        assert_eq!((&ids[..4], ids[4], ids[20]), (&[3, 16, 0, 0][..], 4, 0));
        assert_eq!(unique_ids(&[1; 16], &[4; 16])[20..24], [3, 16, 0, 0]);
    }
}
