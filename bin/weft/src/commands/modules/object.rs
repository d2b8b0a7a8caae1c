//! A module's file: an ELF object without code, whose section `.modinfo` is what modinfo prints.

/// Sizes of ELF's structures for 64 bits.
const HEADER_BYTES: usize = 64;
const SECTION_BYTES: usize = 64;

const SECTION_NAMES: &[u8] = b"\0.modinfo\0.shstrtab\0";

/// Type of an object that is yet to be linked.
const ET_REL: u16 = 1;
const SHT_PROGBITS: u32 = 1;
const SHT_STRTAB: u32 = 3;

/// ELF's number of this processor.
const MACHINE: u16 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };

/// Returns the file with these lines, `key=value`.
pub fn write(lines: &[String]) -> Vec<u8> {
    let info: Vec<u8> = lines.iter().flat_map(|line| line.bytes().chain([0])).collect();
    let names_at = HEADER_BYTES + info.len();
    let sections_at = (names_at + SECTION_NAMES.len()).next_multiple_of(8);
    let mut file = header(sections_at);
    file.extend(&info);
    file.extend(SECTION_NAMES);
    file.resize(sections_at, 0);
    file.extend([0; SECTION_BYTES]);
    file.extend(section(1, SHT_PROGBITS, HEADER_BYTES, info.len()));
    file.extend(section(10, SHT_STRTAB, names_at, SECTION_NAMES.len()));
    file
}

fn header(sections_at: usize) -> Vec<u8> {
    let class_and_order = if cfg!(target_endian = "little") { [2, 1, 1, 0] } else { [2, 2, 1, 0] };
    let mut header = [&b"\x7fELF"[..], &class_and_order, &[0; 8]].concat();
    for half in [ET_REL, MACHINE] {
        header.extend(half.to_ne_bytes());
    }
    header.extend(1u32.to_ne_bytes());
    // No entry point and no program headers.
    for offset in [0, 0, sections_at as u64] {
        header.extend(offset.to_ne_bytes());
    }
    header.extend(0u32.to_ne_bytes());
    for half in [HEADER_BYTES as u16, 0, 0, SECTION_BYTES as u16, 3, 2] {
        header.extend(half.to_ne_bytes());
    }
    header
}

fn section(name: u32, kind: u32, offset: usize, size: usize) -> Vec<u8> {
    let mut bytes = [name.to_ne_bytes(), kind.to_ne_bytes()].concat();
    for word in [0, 0, offset as u64, size as u64, 0, 1, 0] {
        bytes.extend(word.to_ne_bytes());
    }
    // The link and the information are two halves of the fifth word, and both are zero.
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sections_are_where_the_header_says() {
        let file = write(&["name=ib_core".to_owned()]);
        let word = |at: usize| u64::from_ne_bytes(file[at..at + 8].try_into().unwrap()) as usize;
        let sections = word(40);
        assert_eq!(file.len(), sections + 3 * SECTION_BYTES);
        let (info, names) = (sections + SECTION_BYTES, sections + 2 * SECTION_BYTES);
        assert_eq!(&file[word(info + 24)..][..word(info + 32)], b"name=ib_core\0");
        assert_eq!(&file[word(names + 24)..][..word(names + 32)], SECTION_NAMES);
    }
}
