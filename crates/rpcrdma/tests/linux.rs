//! Calls of Linux's own NFS client, byte for byte (`vectors/linux-6.1.txt`).

use weft_rpcrdma::nfs::CallInfo;
use weft_rpcrdma::wire::{Body, ChunkLists, Header, PrivateData, Segment};
use weft_rpcrdma::{Assembly, Responder, ResponderAction, ResponderConfig};

/// Position of WRITE's data in these calls: behind the RPC header with AUTH_SYS, the handle and five words.
const DATA_AT: usize = 108;

fn vector(name: &str) -> Vec<u8> {
    let lines = include_str!("vectors/linux-6.1.txt").lines();
    let hex = lines.filter_map(|line| line.split_once(' ')).find(|(of, _)| *of == name).expect("a vector").1;
    let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal");
    (0..hex.len()).step_by(2).map(byte).collect()
}

/// Parses a call, writes its header again, and returns its chunks, the assembled message and the plan for it.
fn received(name: &str) -> (ChunkLists, Vec<u8>, Assembly) {
    let bytes = vector(name);
    let (header, len) = Header::parse(&bytes).expect("a header");
    assert_eq!((header.to_bytes(), header.credits), (bytes[..len].to_vec(), 128));
    let Body::Msg(lists) = header.body else { panic!("RDMA_MSG") };
    let end = PrivateData { remote_invalidation: true, send_bytes: 4096, receive_bytes: 4096 };
    let (credits, max) = (1, 2 << 20);
    let config = ResponderConfig { local: end, credits, message_max_bytes: max, memory_max_bytes: max };
    let mut responder = Responder::new(config, end);
    responder.handle_receive(&bytes).expect("valid");
    let Some(ResponderAction::Assemble(_, assembly)) = responder.poll() else { panic!("a call") };
    let mut message = vec![0; assembly.message_len()];
    assembly.place_inline(&mut message);
    (lists, message, assembly)
}

fn lengths(segments: &[Segment]) -> Vec<u32> {
    segments.iter().map(|segment| segment.length).collect()
}

#[test]
fn null_has_no_chunks_and_an_rpc_header() {
    let (lists, message, _) = received("null");
    assert!(lists.is_empty());
    assert_eq!((message.len(), &message[..4]), (40, &[0x6c, 0x87, 0xdb, 0x93][..]));
}

#[test]
fn a_mebibyte_of_write_is_one_read_chunk_of_eight_segments() {
    let (lists, message, assembly) = received("write");
    assert_eq!((lists.reads.len(), lists.writes.len(), &lists.reply), (8, 0, &None));
    assert!(lists.reads.iter().all(|read| (read.position, read.segment.length) == (DATA_AT as u32, 131_072)));
    let first = Segment { handle: 0xc6e, length: 131_072, offset: 0x7487_db93_0435_b000 };
    assert_eq!(lists.reads[0].segment, first);
    let places: Vec<usize> = assembly.reads().iter().map(|read| read.at).collect();
    assert_eq!(places, (0..8).map(|index| DATA_AT + index * 131_072).collect::<Vec<_>>());
    let eligible = CallInfo::parse(&message).eligible;
    assert_eq!(eligible.arguments, std::iter::once(DATA_AT..DATA_AT + (1 << 20)).collect::<Vec<_>>());
}

#[test]
fn read_has_a_write_list_for_the_result_that_the_binding_finds() {
    let (lists, message, _) = received("read");
    let [chunk] = &lists.writes[..] else { panic!("one chunk") };
    assert_eq!(lengths(&chunk.segments), [16384]);
    assert_eq!(CallInfo::parse(&message).eligible.results, [16384]);
}

#[test]
fn readdirplus_and_readlink_have_a_reply_chunk() {
    let (lists, message, _) = received("readdirplus");
    assert_eq!(lengths(&lists.reply.expect("a reply chunk").segments), [124, 65536, 4]);
    let eligible = CallInfo::parse(&message).eligible;
    // Linux asks for 64 KiB of entries; our bound has room for the header and the attributes beside them.
    assert!(eligible.results.is_empty() && eligible.reply_max.is_some_and(|max| max >= 65536));
    let (lists, message, _) = received("readlink");
    assert_eq!(lengths(&lists.reply.expect("a reply chunk").segments), [120, 4096, 4]);
    assert_eq!(CallInfo::parse(&message).eligible.results.len(), 1);
}
