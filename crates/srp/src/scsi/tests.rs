//! Tests of the device.

use super::limits::{TRANSFER_BYTES_MAX, UNMAP_BYTES_MAX};
use super::*;

const BLOCKS: u64 = 1 << 21;

fn device(block_shift: u8, read_only: bool) -> Device {
    let identity = Identity { vendor: "WEFT".into(), product: "Disk".into(), revision: "1".into() };
    let unit = LogicalUnit { blocks: BLOCKS, block_shift, identifier: 0x1234, serial: "abc".into(), read_only };
    Device::new(identity, vec![unit.clone(), unit])
}

fn cdb(bytes: &[u8]) -> Cdb {
    let mut block = [0; CDB_LEN];
    block[..bytes.len()].copy_from_slice(bytes);
    Cdb(block)
}

fn ask(device: &mut Device, bytes: &[u8]) -> Result<Step, Sense> {
    device.begin(&mut Attentions::default(), Some(0), &cdb(bytes))
}

fn data(device: &mut Device, bytes: &[u8]) -> Vec<u8> {
    match ask(device, bytes) {
        Ok(Step::Data(data)) => data,
        other => panic!("{other:?}"),
    }
}

#[test]
fn inquiry_describes_the_disk_and_its_pages() {
    let mut device = device(9, false);
    let standard = data(&mut device, &[0x12, 0, 0, 0, 96, 0]);
    assert_eq!((standard.len(), standard[0], standard[2], standard[4]), (96, 0, 6, 91));
    assert_eq!(&standard[8..36], b"WEFT    Disk            1   ");
    assert_eq!(data(&mut device, &[0x12, 0, 0, 0, 5, 0]).len(), 5);
    let pages = data(&mut device, &[0x12, 1, 0, 0, 255, 0]);
    assert_eq!(pages[4..], [0x00, 0x80, 0x83, 0x86, 0xb0, 0xb1, 0xb2]);
    for page in &pages[4..] {
        let body = data(&mut device, &[0x12, 1, *page, 0, 255, 0]);
        assert_eq!((body[1], usize::from(body[3])), (*page, body.len() - 4));
    }
    let limits = data(&mut device, &[0x12, 1, 0xb0, 0, 255, 0]);
    assert_eq!(limits[8..12], (TRANSFER_BYTES_MAX / 512).to_be_bytes());
    assert_eq!(limits[20..24], ((UNMAP_BYTES_MAX / 512) as u32).to_be_bytes());
    assert_eq!(ask(&mut device, &[0x12, 1, 0x99, 0, 255, 0]), Err(Sense::INVALID_FIELD));
    assert_eq!(ask(&mut device, &[0x12, 0, 0x80, 0, 255, 0]), Err(Sense::INVALID_FIELD));
}

#[test]
fn units_that_are_not_there_answer_as_such() {
    let mut device = device(9, false);
    let mut none = Attentions::default();
    let step = device.begin(&mut none, Some(2), &cdb(&[0x12, 0, 0, 0, 96, 0]));
    assert!(matches!(step, Ok(Step::Data(data)) if data[0] == 0x7f));
    assert_eq!(device.begin(&mut none, Some(2), &cdb(&[0])), Err(Sense::NO_UNIT));
    assert_eq!(device.begin(&mut none, None, &cdb(&[0x28])), Err(Sense::NO_UNIT));
    let step = device.begin(&mut none, None, &cdb(&[0xa0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]));
    assert!(matches!(step, Ok(Step::Data(list)) if list.len() == 24 && list[3] == 16 && list[17] == 1));
}

#[test]
fn capacities_and_modes_are_those_of_the_unit() {
    let mut disk = device(12, true);
    let short = data(&mut disk, &[0x25]);
    assert_eq!(short, [(BLOCKS as u32 - 1).to_be_bytes(), 4096_u32.to_be_bytes()].concat());
    let long = data(&mut disk, &[0x9e, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 32]);
    assert_eq!((long.len(), long[13], long[14]), (32, 0, 0xc0));
    let modes = data(&mut disk, &[0x1a, 0, 0x3f, 0, 255]);
    assert_eq!((usize::from(modes[0]) + 1, modes[2], modes[3]), (modes.len(), 0x90, 8));
    assert_eq!((modes[12], modes[14], modes[32]), (0x08, 0x04, 0x0a));
    // Without block descriptor, changeable values, ten bytes.
    let modes = data(&mut disk, &[0x5a, 8, 0x48, 0, 0, 0, 0, 0, 255]);
    assert_eq!((modes.len(), modes[1], modes[7], modes[8], modes[10]), (28, 26, 0, 0x08, 0));
    assert_eq!(ask(&mut disk, &[0x1a, 0, 0xc8, 0, 255]), Err(Sense::NO_SAVING));
    assert_eq!(ask(&mut disk, &[0x2a, 0, 0, 0, 0, 0, 0, 0, 1]), Err(Sense::WRITE_PROTECTED));
    assert_eq!(data(&mut device(9, false), &[0x1a, 0, 0x3f, 0, 255])[2], 0x10);
}

#[test]
fn blocks_become_bytes_within_the_unit() {
    let mut device = device(9, false);
    let read = |offset, length| Ok(Step::Execute(Operation::Read { offset, length, durable: false }));
    assert_eq!(ask(&mut device, &[0x08, 0x1f, 0xff, 0xff, 1]), read((BLOCKS - 1) << 9, 512));
    // No count is 256 blocks.
    assert_eq!(ask(&mut device, &[0x08, 0, 0, 2, 0]), read(1024, 256 << 9));
    assert_eq!(ask(&mut device, &[0x28, 0, 0, 0, 0, 3, 0, 0, 2]), read(1536, 1024));
    assert_eq!(ask(&mut device, &[0xa8, 0, 0, 0, 0, 3, 0, 0, 0, 2]), read(1536, 1024));
    let durable = Operation::Write { offset: 512, length: 512, durable: true };
    let sixteen = [0x8a, 8, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1];
    assert_eq!(ask(&mut device, &sixteen), Ok(Step::Execute(durable)));
    assert_eq!(ask(&mut device, &[0x28, 0, 0, 0, 0, 3, 0, 0, 0]), Ok(Step::Done));
    assert_eq!(ask(&mut device, &[0x28, 0, 0, 0x20, 0, 0, 0, 0, 1]), Err(Sense::OUT_OF_RANGE));
    assert_eq!(ask(&mut device, &[0x28, 0, 0, 0x1f, 0xff, 0xff, 0, 0, 2]), Err(Sense::OUT_OF_RANGE));
    let far = [0x88, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1];
    assert_eq!(ask(&mut device, &far), Err(Sense::OUT_OF_RANGE));
    // More than a command may transfer, protection information, auto contingent allegiance.
    assert_eq!(ask(&mut device, &[0xa8, 0, 0, 0, 0, 0, 0, 0, 0x08, 1]), Err(Sense::INVALID_FIELD));
    assert_eq!(ask(&mut device, &[0x28, 0x20, 0, 0, 0, 0, 0, 0, 1]), Err(Sense::INVALID_FIELD));
    assert_eq!(ask(&mut device, &[0x28, 0, 0, 0, 0, 0, 0, 0, 1, 4]), Err(Sense::INVALID_FIELD));
    assert_eq!(ask(&mut device, &[0x5e]), Err(Sense::INVALID_OPCODE));
    let compare = Operation::Compare { offset: 0, length: 512 };
    assert_eq!(ask(&mut device, &[0x2f, 2, 0, 0, 0, 0, 0, 0, 1]), Ok(Step::Execute(compare)));
    assert_eq!(ask(&mut device, &[0x2f, 4, 0, 0, 0, 0, 0, 0, 1]), Err(Sense::INVALID_FIELD));
}

#[test]
fn unmap_and_write_same_take_their_data() {
    let mut device = device(9, false);
    let unmap = [0x42, 0, 0, 0, 0, 0, 0, 0, 40];
    assert_eq!(ask(&mut device, &unmap), Ok(Step::Fetch(40)));
    let mut list = vec![0; 40];
    (list[1], list[3], list[15], list[19], list[31], list[35]) = (38, 32, 8, 2, 100, 1);
    let ranges = Operation::Deallocate(vec![(8 << 9, 1024), (100 << 9, 512)]);
    assert_eq!(device.with_data(Some(0), &cdb(&unmap), &list), Ok(Step::Execute(ranges)));
    list[24..32].fill(0xff);
    assert_eq!(device.with_data(Some(0), &cdb(&unmap), &list), Err(Sense::OUT_OF_RANGE));
    assert_eq!(device.with_data(Some(0), &cdb(&unmap), &list[..6]), Err(Sense::PARAMETER_LIST_LENGTH));
    assert_eq!(ask(&mut device, &[0x42, 0, 0, 0, 0, 0, 0, 0xff, 0xff]), Err(Sense::INVALID_FIELD));
    let same = [0x41, 0, 0, 0, 0, 1, 0, 0, 4];
    assert_eq!(ask(&mut device, &same), Ok(Step::Fetch(512)));
    let repeat = Operation::Repeat { offset: 512, length: 2048, block: vec![7; 512] };
    assert_eq!(device.with_data(Some(0), &cdb(&same), &[7; 512]), Ok(Step::Execute(repeat)));
    let zeroes = Operation::WriteZeroes { offset: 512, length: 2048, deallocate: false };
    assert_eq!(device.with_data(Some(0), &cdb(&same), &[0; 512]), Ok(Step::Execute(zeroes)));
    let without_data = [0x93, 9, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1];
    let zeroes = Operation::WriteZeroes { offset: 512, length: 512, deallocate: true };
    assert_eq!(ask(&mut device, &without_data), Ok(Step::Execute(zeroes)));
    // Without a number of blocks, with ANCHOR, more than one command may set.
    for wrong in [[0x41, 0, 0, 0, 0, 1, 0, 0, 0], [0x41, 0x10, 0, 0, 0, 1, 0, 0, 1]] {
        assert_eq!(ask(&mut device, &wrong), Err(Sense::INVALID_FIELD), "{wrong:x?}");
    }
    assert_eq!(ask(&mut device, &[0x93, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0]), Err(Sense::INVALID_FIELD));
}

#[test]
fn a_unit_attention_is_reported_once() {
    let mut device = device(9, false);
    let mut attentions = Attentions::default();
    attentions.establish(0, Sense::POWER_ON);
    attentions.establish(1, Sense::POWER_ON);
    let inquiry = device.begin(&mut attentions, Some(0), &cdb(&[0x12, 0, 0, 0, 96, 0]));
    assert!(matches!(inquiry, Ok(Step::Data(_))));
    assert_eq!(device.begin(&mut attentions, Some(0), &cdb(&[0])), Err(Sense::POWER_ON));
    assert_eq!(device.begin(&mut attentions, Some(0), &cdb(&[0])), Ok(Step::Done));
    let sense = device.begin(&mut attentions, Some(1), &cdb(&[0x03, 0, 0, 0, 252, 0]));
    assert_eq!(sense, Ok(Step::Data(Sense::POWER_ON.to_bytes().to_vec())));
    assert_eq!(device.begin(&mut attentions, Some(1), &cdb(&[0])), Ok(Step::Done));
}

#[test]
fn a_stopped_unit_says_so_until_it_starts() {
    let mut device = device(9, false);
    assert_eq!(ask(&mut device, &[0x1b, 0, 0, 0, 0, 0]), Ok(Step::Execute(Operation::Flush)));
    assert_eq!(ask(&mut device, &[0]), Err(Sense::STOPPED));
    assert_eq!(ask(&mut device, &[0x28, 0, 0, 0, 0, 0, 0, 0, 1]), Err(Sense::STOPPED));
    assert_eq!(ask(&mut device, &[0x1b, 0, 0, 0, 0x10, 0]), Err(Sense::INVALID_FIELD));
    assert_eq!(ask(&mut device, &[0x1b, 0, 0, 0, 1, 0]), Ok(Step::Done));
    assert_eq!(ask(&mut device, &[0]), Ok(Step::Done));
}

#[test]
fn supported_commands_are_reported() {
    let mut device = device(9, false);
    let all = data(&mut device, &[0xa3, 0x0c, 0, 0, 0, 0, 0, 0, 0xff, 0xff]);
    assert_eq!(u32::from_be_bytes([all[0], all[1], all[2], all[3]]) as usize, all.len() - 4);
    let one = data(&mut device, &[0xa3, 0x0c, 1, 0x93, 0, 0, 0, 0, 2, 0]);
    assert_eq!((one[1], one[3], one[4], one.len()), (3, 16, 0x93, 20));
    assert_eq!(data(&mut device, &[0xa3, 0x0c, 1, 0x5e, 0, 0, 0, 0, 2, 0])[1], 1);
    assert_eq!(data(&mut device, &[0xa3, 0x0c, 2, 0x9e, 0, 0x10, 0, 0, 2, 0])[1], 3);
    assert_eq!(ask(&mut device, &[0xa3, 0x0c, 1, 0x9e, 0, 0, 0, 0, 2, 0]), Err(Sense::INVALID_FIELD));
}
