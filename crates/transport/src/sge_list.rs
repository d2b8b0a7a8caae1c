//! Scatter/gather lists as sequences of bytes.

use weft_verbs::Sge;

/// Returns the total bytes of a list.
pub(crate) fn total(sges: &[Sge]) -> u64 {
    sges.iter().map(|s| u64::from(s.length)).sum()
}

/// Returns the parts of a list's elements that hold bytes `offset .. offset + len` of the message.
pub(crate) fn parts(sges: &[Sge], offset: u64, len: u64) -> impl Iterator<Item = Sge> + '_ {
    let end = offset + len;
    let mut at = 0u64;
    sges.iter().filter_map(move |sge| {
        let (from, to) = (at, at + u64::from(sge.length));
        at = to;
        let (from_cut, to_cut) = (from.max(offset), to.min(end));
        (from_cut < to_cut).then(|| Sge {
            addr: sge.addr.wrapping_add(from_cut - from),
            length: (to_cut - from_cut) as u32,
            lkey: sge.lkey,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sge(addr: u64, length: u32) -> Sge {
        Sge { addr, length, lkey: 7 }
    }

    #[test]
    fn parts_cut_across_elements() {
        let list = [sge(100, 10), sge(0, 0), sge(200, 5), sge(300, 20)];
        let cut: Vec<_> = parts(&list, 8, 10).map(|s| (s.addr, s.length)).collect();
        assert_eq!(cut, [(108, 2), (200, 5), (300, 3)]);
        assert_eq!(parts(&list, 35, 4).count(), 0);
        assert_eq!(total(&list), 35);
    }
}
