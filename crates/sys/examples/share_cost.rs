//! The cost of sharing memory and taking it back, beside the cost of registration itself (making every page present),
//! and the copy speed of shared memory: `cargo run --profile dist -p weft-sys --example share_cost`.

use std::hint::black_box;
use std::time::{Duration, Instant};

use weft_sys::mapping;
use weft_sys::share::{Sharer, View};

const ROUNDS: usize = 7;
const MIB: u64 = 1 << 20;

fn main() -> std::io::Result<()> {
    println!("threads  size      registration    share           unshare         (medians of {ROUNDS})");
    for alone in [true, false] {
        let idle = (!alone).then(|| std::thread::spawn(std::thread::park));
        for mib in [1, 64, 1024] {
            costs(alone, mib)?;
        }
        if let Some(idle) = idle {
            idle.thread().unpark();
            let _ = idle.join();
        }
    }
    for mib in [1, 2, 64] {
        speeds(mib)?;
    }
    Ok(())
}

fn costs(alone: bool, mib: u64) -> std::io::Result<()> {
    let len = mib * MIB;
    let mut sharer = Sharer::new(false)?;
    let (mut plain, mut there, mut back) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let memory = anonymous(len);
        let start = Instant::now();
        mapping::check(memory, len, true)?;
        plain.push(start.elapsed());
        // Pages of zeros would not be copied.
        dirty(memory, len);
        let start = Instant::now();
        let extents = sharer.share(memory, len, 0, &mut |work| work());
        there.push(start.elapsed());
        assert_eq!(extents.iter().map(|extent| extent.len).sum::<u64>(), len, "{:?}", sharer.take_refusal());
        let start = Instant::now();
        sharer.unshare(&extents, 0, &mut |work| work());
        back.push(start.elapsed());
        free(memory, len);
    }
    let threads = if alone { 1 } else { 2 };
    println!("{threads:<8} {mib:>4} MiB  {:<15?} {:<15?} {:?}", median(plain), median(there), median(back));
    Ok(())
}

/// Copies of a buffer into private memory, private memory with huge pages, and shared memory through a view.
fn speeds(mib: u64) -> std::io::Result<()> {
    let len = mib * MIB;
    let from = anonymous(len);
    mapping::check(from, len, true)?;
    let private = anonymous(len);
    let huge = anonymous(len);
    // SAFETY: memory of our own.
    unsafe { libc::madvise(pointer(huge).cast(), len as usize, libc::MADV_HUGEPAGE) };
    let shared = anonymous(len);
    for addr in [private, huge, shared] {
        mapping::check(addr, len, true)?;
    }
    let mut sharer = Sharer::new(false)?;
    let extents = sharer.share(shared, len, 0, &mut |work| work());
    let extent = extents[0];
    let mut view = View::new(sharer.arena().try_clone_to_owned()?)?;
    let viewed = view.slice(extent.offset, extent.len).map_or(0, |at| at.expose_provenance() as u64);
    let rate = |to| {
        let laps = (4096 / mib).max(4);
        let start = Instant::now();
        for _ in 0..laps {
            // SAFETY: mappings of our own of this length that do not overlap.
            unsafe { std::ptr::copy_nonoverlapping(pointer(from), pointer(to), len as usize) };
            black_box(to);
        }
        (laps * len) as f64 / start.elapsed().as_secs_f64() / 1e9
    };
    let mut rates = [private, huge, shared, viewed].map(|to| (to, Vec::new()));
    for _ in 0..ROUNDS + 1 {
        for (to, rates) in &mut rates {
            rates.push(rate(*to));
        }
    }
    let best = rates.map(|(_, mut rates)| {
        rates.sort_by(f64::total_cmp);
        rates[rates.len() / 2]
    });
    let [private, huge, shared, viewed] = best;
    println!(
        "memcpy {mib} MiB, GB/s: into private {private:.1}, huge pages {huge:.1}, shared {shared:.1}, a peer's view {viewed:.1}"
    );
    Ok(())
}

fn pointer(addr: u64) -> *mut u8 {
    std::ptr::with_exposed_provenance_mut(addr as usize)
}

/// Writes to every page.
fn dirty(memory: u64, len: u64) {
    for at in (memory..memory + len).step_by(4096) {
        // SAFETY: memory of `anonymous`, which has that length.
        unsafe { std::ptr::with_exposed_provenance_mut::<u8>(at as usize).write_volatile(1) };
    }
}

fn anonymous(len: u64) -> u64 {
    let (rights, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping at an address of the kernel's choice.
    let addr = unsafe { libc::mmap(std::ptr::null_mut(), len as usize, rights, flags, -1, 0) };
    assert_ne!(addr, libc::MAP_FAILED);
    addr.expose_provenance() as u64
}

fn free(addr: u64, len: u64) {
    // SAFETY: our own mapping, which is not used again.
    unsafe { libc::munmap(pointer(addr).cast(), len as usize) };
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}
