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

#[test]
fn pages_of_zeros_are_neither_copied_nor_restored() {
    let _one = one_at_a_time();
    const PAGES: u64 = 3 * 512;
    for beside_others in [false, true] {
        if beside_others && !can_restore() {
            continue;
        }
        assert!(in_child(|| {
            let memory = Memory::new(PAGES);
            let idle = beside_others.then(|| std::thread::spawn(std::thread::park));
            // Cleared, as a pool is; some pages have data, in their first, in a middle, or in their last word.
            (0..PAGES * 512).for_each(|k| memory.word(k).store(0, Ordering::Relaxed));
            let data = [0, 7 * 512 + 100, 512 * 512 + 511, PAGES * 512 - 1];
            data.iter().for_each(|&k| memory.word(k).store(k + 1, Ordering::Relaxed));
            let mut sharer = Sharer::new(false).unwrap();
            let extents = share(&mut sharer, memory.addr, memory.len);
            assert_eq!(extents.iter().map(|extent| extent.len).sum::<u64>(), memory.len);
            assert_eq!(sharer.take_copied(), data.len() as u64 * page_size());
            memory.word(20 * 512).store(21, Ordering::Relaxed);
            unshare(&mut sharer, &extents);
            assert_eq!(sharer.take_copied(), (data.len() as u64 + 1) * page_size());
            idle.iter().for_each(|idle| idle.thread().unpark());
            let kept = |k: u64| if data.contains(&k) { k + 1 } else { u64::from(k == 20 * 512) * 21 };
            (0..PAGES * 512).all(|k| memory.word(k).load(Ordering::Relaxed) == kept(k))
        }));
    }
}
