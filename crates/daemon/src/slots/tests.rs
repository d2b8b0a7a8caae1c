use super::*;

const QUARANTINE: Duration = Duration::from_secs(60);

fn rules() -> SlotRules {
    SlotRules { initial: 4, per_user_max: POOL_SLOTS_MAX, quarantine: QUARANTINE, rest: Duration::ZERO }
}

fn fair() -> SlotRules {
    SlotRules { per_user_max: SLOTS_FAIR_MAX, ..rules() }
}

fn dead(_: u32) -> bool {
    true
}

fn try_take(table: &mut SlotTable, now: Instant, uid: u32, rules: &SlotRules) -> Option<u32> {
    match table.choose(now, uid, rules, dead) {
        Choice::Take(slot) => {
            table.own(slot, 1, uid);
            Some(slot)
        }
        Choice::GrowTo(count) => {
            table.grow_to(count);
            try_take(table, now, uid, rules)
        }
        Choice::Exhausted => None,
    }
}

fn take(table: &mut SlotTable, now: Instant, uid: u32) -> u32 {
    try_take(table, now, uid, &rules()).expect("a slot")
}

#[test]
fn fresh_slots_first_then_the_one_longest_free() {
    let (mut table, now) = (SlotTable::default(), Instant::now());
    assert_eq!(table.choose(now, 7, &rules(), dead), Choice::GrowTo(4));
    assert_eq!([take(&mut table, now, 7), take(&mut table, now, 7)], [1, 2]);
    table.release(now, 2);
    table.release(now, 1);
    assert_eq!([take(&mut table, now, 7), take(&mut table, now, 7), take(&mut table, now, 7)], [3, 2, 1]);
    assert_eq!(table.in_use_by(7), 3);
    assert_eq!(table.choose(now, 7, &rules(), dead), Choice::GrowTo(8));
    assert_eq!(table.len(), 4);
}

#[test]
fn a_small_pool_grows_rather_than_reuse_a_slot_at_once() {
    let (mut table, now) = (SlotTable::default(), Instant::now());
    let rules = SlotRules { initial: 2, rest: Duration::from_secs(5), ..rules() };
    assert_eq!(try_take(&mut table, now, 7, &rules), Some(1));
    table.release(now, 1);
    assert_eq!(table.choose(now, 7, &rules, dead), Choice::GrowTo(4));
    assert_eq!(table.choose(now + rules.rest, 7, &rules, dead), Choice::Take(1));
    table.grow_to(POOL_SLOTS_RESTED);
    for slot in 2..POOL_SLOTS_RESTED {
        table.own(slot, 1, 7);
    }
    assert_eq!(table.choose(now, 7, &rules, dead), Choice::Take(1));
}

#[test]
fn a_slot_changes_its_user_after_a_quarantine_and_the_death_of_its_process() {
    let (mut table, now) = (SlotTable::default(), Instant::now());
    table.grow_to(2);
    assert_eq!(take(&mut table, now, 7), 1);
    table.release(now, 1);
    let late = now + QUARANTINE;
    for uid in [0, 8] {
        assert_eq!(table.choose(now, uid, &rules(), dead), Choice::GrowTo(4));
        assert_eq!(table.choose(late, uid, &rules(), |_| false), Choice::GrowTo(4));
        assert_eq!(table.choose(late, uid, &rules(), dead), Choice::Take(1));
    }
    assert_eq!(table.choose(now, 7, &rules(), |_| false), Choice::Take(1));
    table.own(1, 1, 0);
    table.release(now, 1);
    assert_eq!(table.choose(now, 8, &rules(), dead), Choice::Take(1), "root listens in on nobody");
}

#[test]
fn a_few_users_with_many_short_processes_lock_out_nobody() {
    let (mut table, now) = (SlotTable::default(), Instant::now());
    for uid in [1000, 1001, 1002] {
        for _ in 0..3 {
            let taken: Vec<u32> = (0..SLOTS_FAIR_MAX).map_while(|_| try_take(&mut table, now, uid, &fair())).collect();
            assert!(taken.len() > 200, "user {uid}: {}", taken.len());
            taken.into_iter().for_each(|slot| table.release(now, slot));
        }
    }
    // Within the quarantine of all of them.
    for uid in 1003..1006 {
        let taken: Vec<u32> = (0..SLOTS_FAIR_MAX).map_while(|_| try_take(&mut table, now, uid, &fair())).collect();
        assert!(taken.len() >= 20, "user {uid}: {}", taken.len());
    }
    for _ in 0..SLOTS_FOR_ROOT {
        assert!(try_take(&mut table, now, 0, &fair()).is_some(), "root always gets in");
    }
}

#[test]
fn processes_that_stay_lock_out_nobody_either() {
    let (mut table, now) = (SlotTable::default(), Instant::now());
    for uid in 1000..1008 {
        let taken = (0..SLOTS_FAIR_MAX).map_while(|_| try_take(&mut table, now, uid, &fair())).count();
        assert!(taken >= 1, "user {uid}");
    }
    assert!((0..SLOTS_FOR_ROOT).all(|_| try_take(&mut table, now, 0, &fair()).is_some()));
}

#[test]
fn the_pool_ends() {
    let (mut table, now) = (SlotTable::default(), Instant::now());
    for expected in 1..POOL_SLOTS_MAX - SLOTS_FOR_ROOT {
        assert_eq!(take(&mut table, now, 7), expected);
    }
    assert_eq!(table.choose(now, 7, &rules(), dead), Choice::Exhausted);
    for _ in 0..SLOTS_FOR_ROOT {
        take(&mut table, now, 0);
    }
    assert_eq!(table.choose(now, 0, &rules(), dead), Choice::Exhausted);
    table.release(now, 500);
    assert_eq!(table.choose(now, 8, &rules(), dead), Choice::Exhausted);
    assert_eq!(table.choose(now, 7, &rules(), dead), Choice::Take(500));
}

#[test]
fn a_successor_goes_on() {
    let (mut table, now) = (SlotTable::default(), Instant::now());
    for _ in 0..5 {
        take(&mut table, now, 7);
    }
    table.release(now, 2);
    let restored = SlotTable::restore(now, table.len(), &table.save());
    assert_eq!(restored.waiting(), [1, 3, 4, 5]);
    assert!(restored.may_come_back(3, 7));
    assert!(!restored.may_come_back(3, 8));
    assert!(!restored.may_come_back(0, 7));
    assert!(restored.may_come_back(2, 7), "freed by mistake, and not reused yet");
    // The unused ones come before the one that was used.
    assert_eq!(restored.choose(now, 7, &rules(), dead), Choice::Take(6));
    assert!(SlotTable::restore(now, 0, &table.save()).waiting().is_empty());
}
