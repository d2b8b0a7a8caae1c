//! Messages made by hand from the XDR of RFC 1813, 7530 and 8881.

use super::*;

/// Builder of XDR.
#[derive(Clone, Default)]
struct Xdr(Vec<u8>);

impl Xdr {
    fn words(mut self, words: &[u32]) -> Xdr {
        words.iter().for_each(|word| self.0.extend_from_slice(&word.to_be_bytes()));
        self
    }

    fn opaque(mut self, data: &[u8]) -> Xdr {
        self = self.words(&[data.len() as u32]);
        self.0.extend_from_slice(data);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    fn zeros(mut self, len: usize) -> Xdr {
        self.0.resize(self.0.len() + len, 0);
        self
    }
}

/// A call with AUTH_SYS of 24 bytes.
fn call(version: u32, procedure: u32) -> Xdr {
    Xdr::default().words(&[9, 0, 2, 100_003, version, procedure, 1]).opaque(&[0; 24]).words(&[0, 0])
}

fn reply() -> Xdr {
    Xdr::default().words(&[9, 1, 0, 0, 0, 0])
}

fn compound(minor: u32, operations: u32) -> Xdr {
    call(4, 1).opaque(b"tag").words(&[minor, operations])
}

#[track_caller]
fn check_argument(message: &Xdr, data: &[u8]) -> CallInfo {
    let info = CallInfo::parse(&message.0);
    let [range] = &info.eligible.arguments[..] else { panic!("{:?}", info.eligible.arguments) };
    assert_eq!(&message.0[range.clone()], data);
    info
}

#[track_caller]
fn check_restored(info: &CallInfo, reply: &Xdr, results: &[&[u8]]) {
    let ranges = info.results_of(&reply.0);
    assert_eq!(ranges.iter().map(|range| &reply.0[range.clone()]).collect::<Vec<_>>(), results);
    let mut reduced = reply.0.clone();
    for range in ranges.iter().rev() {
        reduced.drain(range.start..range.end.next_multiple_of(4));
    }
    assert_eq!(info.restore(&reduced, results).as_ref(), Some(&reply.0));
    // Nothing was written: all data is inline.
    assert_eq!(info.restore(&reply.0, &vec![&[][..]; results.len()]).as_ref(), Some(&reply.0));
}

#[test]
fn nfsv3_write_and_symlink_have_an_eligible_argument() {
    let write = call(3, 7).opaque(&[1; 28]).words(&[0, 512, 5, 2]).opaque(b"hello");
    let info = check_argument(&write, b"hello");
    assert_eq!((info.eligible.results, info.eligible.reply_max), (vec![], Some(424 + 512)));
    let attributes = [1, 0o777, 0, 0, 1, 0, 4096, 2, 7, 8, 1];
    let link = call(3, 10).opaque(&[1; 28]).opaque(b"name").words(&attributes).opaque(b"../target");
    check_argument(&link, b"../target");
}

#[test]
fn nfsv3_read_and_readlink_have_an_eligible_result() {
    let read = CallInfo::parse(&call(3, 6).opaque(&[1; 28]).words(&[0, 0, 65536]).0);
    assert_eq!((read.eligible.results.clone(), read.eligible.arguments.len()), (vec![65536], 0));
    let with_attributes = reply().words(&[0, 1]).zeros(84).words(&[7, 1]).opaque(b"content");
    check_restored(&read, &with_attributes, &[b"content"]);
    check_restored(&read, &reply().words(&[0, 0, 3, 1]).opaque(b"abc"), &[b"abc"]);
    check_restored(&read, &reply().words(&[0, 0, 0, 1, 0]), &[b""]);
    // NFS3ERR_STALE, and a call that was not accepted.
    assert_eq!(read.results_of(&reply().words(&[70, 0]).0), []);
    assert_eq!(read.results_of(&Xdr::default().words(&[9, 1, 1, 0, 2, 2]).0), []);
    let readlink = CallInfo::parse(&call(3, 5).opaque(&[1; 28]).0);
    check_restored(&readlink, &reply().words(&[0, 0]).opaque(b"../target"), &[b"../target"]);
}

#[test]
fn nfsv3_directories_say_how_long_the_reply_is() {
    let readdirplus = call(3, 17).opaque(&[1; 28]).words(&[0, 0, 0, 0, 1000, 32768]);
    assert_eq!(CallInfo::parse(&readdirplus.0).eligible.reply_max, Some(424 + 512 + 32768));
}

#[test]
fn nfsv4_write_is_found_behind_sequence_and_before_an_unknown_operation() {
    let write = compound(1, 4).words(&[53]).zeros(32).words(&[22]).opaque(&[1; 20]);
    let write = write.words(&[38]).zeros(16).words(&[0, 0, 2]).opaque(b"data!");
    check_argument(&write.clone().words(&[9, 2, 0x18, 0x30]), b"data!");
    check_argument(&write.words(&[0xffff]), b"data!");
    let link = compound(0, 2).words(&[24, 6, 5]).opaque(b"to").opaque(b"name").words(&[0, 0]);
    check_argument(&link, b"to");
}

#[test]
fn nfsv4_has_a_result_for_each_read_in_order() {
    let read = |xdr: Xdr, len| xdr.words(&[25]).zeros(24).words(&[len]);
    let call = compound(2, 6).words(&[53]).zeros(32).words(&[22]).opaque(&[1; 20]);
    let call = read(read(call, 100), 200).words(&[27, 9, 1, 2]);
    let info = CallInfo::parse(&call.0);
    assert_eq!((info.eligible.results.clone(), info.eligible.reply_max), (vec![100, 200, PATH_MAX], None));
    let begin =
        |status, count| reply().words(&[status]).opaque(b"tag").words(&[count, 53, 0]).zeros(36).words(&[22, 0]);
    let read = |xdr: Xdr, data| xdr.words(&[25, 0, 1]).opaque(data);
    let all = read(read(begin(0, 6), b"first"), b"second").words(&[27, 0]).opaque(b"path");
    check_restored(&info, &all.words(&[9, 0, 1, 2]).opaque(&[3; 8]), &[b"first", b"second", b"path"]);
    // The second READ fails, and ends the COMPOUND.
    let failed = read(begin(5, 4), b"first").words(&[25, 5]);
    check_restored(&info, &failed, &[b"first"]);
}

const PATH_MAX: u32 = crate::limits::PATH_MAX_BYTES;

#[test]
fn nothing_is_eligible_in_messages_that_are_protected_foreign_or_cut() {
    let write = call(3, 7).opaque(&[1; 28]).words(&[0, 512, 5, 2]).opaque(b"hello");
    let mut gss = write.0.clone();
    gss[27] = 6;
    let mut mount = write.0.clone();
    mount[15] ^= 1;
    let cut = write.0[..write.0.len() - 4].to_vec();
    for message in [gss, mount, cut, compound(3, 0).0, call(3, 22).0, Vec::new()] {
        assert_eq!(CallInfo::parse(&message), CallInfo::default());
    }
}

#[test]
fn chunks_that_disagree_with_the_reply_are_refused() {
    let read = CallInfo::parse(&call(3, 6).opaque(&[1; 28]).words(&[0, 0, 65536]).0);
    let reduced = reply().words(&[0, 0, 3, 1, 3]);
    assert!(read.restore(&reduced.0, &[b"abc"]).is_some());
    assert_eq!(read.restore(&reduced.0, &[b"abcd"]), None);
    assert_eq!(read.restore(&reply().words(&[70, 0]).0, &[b"abc"]), None);
    assert_eq!(CallInfo::default().restore(&reduced.0, &[b"abc"]), None);
}

proptest::proptest! {
    #[test]
    fn hostile_bytes_yield_ranges_within_the_message(
        mut message in proptest::collection::vec(0..4_u8, 0..300),
        procedure in 0..24_u32,
        version in 3..5_u32,
    ) {
        let mut call = call(version, procedure).0;
        call.append(&mut message);
        let info = CallInfo::parse(&call);
        for range in &info.eligible.arguments {
            assert!(call.get(range.clone()).is_some());
        }
        let reply = [&reply().0[..], &call[64..]].concat();
        for info in [info, CallInfo { protocol: Protocol::V4, ..CallInfo::default() }] {
            for range in info.results_of(&reply) {
                assert!(reply.get(range).is_some());
            }
            let _ = info.restore(&reply, &[b"a", b"bc"]);
        }
    }
}
