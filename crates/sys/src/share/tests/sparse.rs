//! Tests of memory in which only some pages were ever touched.

use super::super::pages::PageMap;
use super::*;

#[test]
fn what_nobody_touched_is_not_restored_beside_other_threads_either() {
    let _one = one_at_a_time();
    if !can_restore() {
        return;
    }
    const PAGES: u64 = 4 * 512;
    assert!(in_child(|| {
        let memory = Memory::new(PAGES);
        let idle = std::thread::spawn(std::thread::park);
        let mut sharer = Sharer::new(false).unwrap();
        let extents = share(&mut sharer, memory.addr, memory.len);
        assert_eq!(sharer.take_copied(), 0);
        let touched = [0, 5, 511, 512, PAGES - 1];
        touched.iter().for_each(|k| memory.word(k * 512).store(*k + 1, Ordering::Relaxed));
        unshare(&mut sharer, &extents);
        assert_eq!(sharer.take_copied(), touched.len() as u64 * page_size());
        assert_eq!(memory.rights(), "rw-p");
        let there: u64 = PageMap::open().runs(memory.addr, 512 * page_size()).map(|(_, run)| run).sum();
        assert_eq!(there, 3 * page_size());
        idle.thread().unpark();
        let kept = |k: u64| if touched.contains(&k) { k + 1 } else { 0 };
        (0..PAGES).all(|k| memory.word(k * 512).load(Ordering::Relaxed) == kept(k))
    }));
}
