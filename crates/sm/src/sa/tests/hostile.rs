//! Hostile input: no datagram causes a panic or growth beyond the limits.

use proptest::prelude::*;
use weft_wire::mad::sa::{ATTRIBUTES, PathRecord};
use weft_wire::mad::{AttrId, Class, MadHeader};

use super::*;
use crate::sa::limits::{CACHE_ERRORS_MAX, QUESTIONS_PER_LID_MAX};

/// A datagram that passes the header checks, with this data.
fn plausible(method: u8, attr: AttrId, mask: u64, data: &[u8]) -> SaMad {
    let mut mad = SaMad::request(Method(method), 9, ComponentMask(mask), &PathRecord::default());
    mad.header = MadHeader::new(Class::SUBN_ADM, 2, Method(method), 9, attr);
    mad.data.iter_mut().zip(data).for_each(|(to, from)| *to = *from);
    mad
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn random_datagrams_do_no_harm(seeds in prop::collection::vec((any::<u8>(), any::<usize>(), any::<u64>(), prop::collection::vec(any::<u8>(), 200), any::<u8>()), 1..24)) {
        let (mut sa, fixture) = (Administrator::default(), golden_fabric());
        let methods = [1, 2, 0x12, 0x14, 0x15, 0x86];
        for (method, attr, mask, data, lid) in seeds {
            let (attr, _) = ATTRIBUTES[attr % ATTRIBUTES.len()];
            let attr = if lid & 0x80 != 0 { AttrId::INFORM_INFO } else { attr };
            let mad = plausible(methods[usize::from(method) % methods.len()], attr, mask, &data);
            let from = Peer { lid: u16::from(lid % 12), ..Peer::default() };
            sa.handle(Instant(0), &fixture.world(), &from, mad.as_bytes());
            sa.handle(Instant(0), &fixture.world(), &from, &data);
            sa.serve(Instant(1), &fixture.world(), 4);
            while let Some(out) = sa.poll_gmp() {
                prop_assert!(out.bytes.len() >= SaMad::DATA_AT);
                sa.handle_gmp_timeout(Instant(2), &out.bytes);
            }
            while sa.poll_change().is_some() {}
        }
        let text = sa.dump(Instant(3), &fixture.world());
        let mut other = Administrator::default();
        prop_assert_eq!(other.restore(Instant(3), &fixture.world(), &text), vec![]);
    }

    #[test]
    fn random_lines_do_no_harm(lines in prop::collection::vec("(MC Group|mcm_port|Service Record:|InformInfo Record:|GUIDInfo Record:)( [a-z_0-9]{1,12}=0x[0-9a-f]{0,17}(:0x[0-9a-f]{1,4})?){0,20}", 1..8)) {
        let (mut sa, fixture) = (Administrator::default(), golden_fabric());
        sa.restore(Instant(0), &fixture.world(), &lines.join("\n"));
    }
}

#[test]
fn a_flood_waits_behind_others() {
    let (mut sa, fixture) = (Administrator::default(), golden_fabric());
    let world = fixture.world();
    let asked = PathRecord { slid: 1, dlid: 6, ..PathRecord::default() };
    let mad = SaMad::request(Method::GET, 1, PathRecord::SLID | PathRecord::DLID, &asked);
    for _ in 0..10_000 {
        sa.handle(Instant(0), &world, &Peer { lid: 1, ..Peer::default() }, mad.as_bytes());
    }
    sa.handle(Instant(0), &world, &Peer { lid: 6, ..Peer::default() }, mad.as_bytes());
    assert_eq!(
        (sa.waiting(), sa.counters().overrun),
        (QUESTIONS_PER_LID_MAX + 1, 10_000 - QUESTIONS_PER_LID_MAX as u64)
    );
    sa.serve(Instant(0), &world, 2);
    let served: Vec<u16> = std::iter::from_fn(|| sa.poll_gmp()).map(|out| out.to.lid).collect();
    assert_eq!(served, [1, 6]);
}

#[test]
fn an_answer_has_its_bounds() {
    let (mut sa, fixture) = (Administrator::default(), super::fat_tree(36));
    let said = ask(&mut sa, &fixture, (1, 0), Method::GET_TABLE, ComponentMask::NONE, &PathRecord::default());
    assert_eq!(said.expect("an answer").status, Status::SA_NO_RESOURCES, "all paths between 702 ports");
    let from_one = PathRecord { slid: 60, ..PathRecord::default() };
    assert_eq!(super::table(&mut sa, &fixture, PathRecord::SLID, &from_one).len(), 702);
}

#[test]
fn a_data_base_of_nothing_but_mistakes_is_told_of_in_few_words() {
    let (mut sa, fixture) = (Administrator::default(), golden_fabric());
    let errors = sa.restore(Instant(0), &fixture.world(), &"x\n".repeat(1_000_000));
    assert_eq!(errors.len(), CACHE_ERRORS_MAX + 1);
    let last = errors.last().map(ToString::to_string);
    let told = "line 1000000: the last of 999900 more that cannot be read; is this the right file?";
    assert_eq!(last.as_deref(), Some(told));
}
