//! Requests as bytes: the common MAD header and the class-specific layout after it.

use super::address::{DrPath, LID_PERMISSIVE};
use weft_wire::mad::{AttrId, Class, MadHeader, Method};
use zerocopy::IntoBytes;

/// Bytes of a MAD.
pub const MAD_LEN: usize = weft_wire::mad::MAD_LEN;
/// Q_Key of queue pair 1.
pub const QKEY_GSI: u32 = weft_wire::mad::GSI_QKEY;

/// Subnet management, routed by LID.
pub const CLASS_SUBN_LID: u8 = Class::SUBN_LID_ROUTED.0;
/// Subnet management, by directed route.
pub const CLASS_SUBN_DIRECTED: u8 = Class::SUBN_DIRECTED_ROUTE.0;
/// Subnet administration.
pub const CLASS_SUBN_ADM: u8 = Class::SUBN_ADM.0;
/// Performance management.
pub const CLASS_PERF: u8 = Class::PERF.0;
/// Congestion control.
pub const CLASS_CC: u8 = 0x21;
/// The vendor class of Mellanox switches.
pub const CLASS_MLX: u8 = 0x0a;
/// The OpenIB class that ibping uses.
pub const CLASS_PING: u8 = 0x32;
/// The OpenIB class that ibsysstat uses.
pub const CLASS_SYSSTAT: u8 = 0x33;
/// OpenIB's OUI.
pub const OUI_OPENIB: u32 = 0x00_1405;

/// Get.
pub const GET: u8 = Method::GET.0;
/// Set.
pub const SET: u8 = Method::SET.0;
/// GetTable.
pub const GET_TABLE: u8 = 0x12;
/// The response bit of a method.
pub const RESPONSE: u8 = 0x80;

/// ClassPortInfo of any class.
pub const ATTR_CLASS_PORT_INFO: u16 = AttrId::CLASS_PORT_INFO.0;
/// Status of an answer that redirects the request.
pub const STATUS_REDIRECT: u16 = 2;

/// Offset of the data in subnet and performance management.
pub const DATA_AT: usize = 64;
/// Offset of the data in subnet administration.
pub const SA_DATA_AT: usize = 56;
/// Offset of the data in a vendor class without OUI.
pub const VENDOR1_DATA_AT: usize = 24;
/// Offset of the data in a vendor class with OUI.
pub const VENDOR2_DATA_AT: usize = 40;

const METHOD_AT: usize = 3;
const STATUS_AT: usize = 4;
/// The RMPP header of the classes that use RMPP.
const RMPP_AT: usize = 24;
const RMPP_LEN: usize = 12;
const RMPP_VERSION: u8 = 1;
const RMPP_DATA: u8 = 1;
const RMPP_ACTIVE: u8 = 1;
const RMPP_RESPONSE_TIME_NONE: u8 = 0x1f;
/// M_Key, followed by the two LIDs of a directed route.
const M_KEY_AT: usize = 24;
const DR_SLID_AT: usize = 32;
const DR_DLID_AT: usize = 34;
/// Hop count of a directed route.
const HOP_COUNT_AT: usize = 7;
const INITIAL_PATH_AT: usize = 128;
/// SM_Key, component mask and record length of subnet administration.
const SM_KEY_AT: usize = 36;
const ATTRIBUTE_OFFSET_AT: usize = 44;
const COMPONENT_MASK_AT: usize = 48;
/// OUI of a vendor class.
const OUI_AT: usize = 37;

/// A request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Request<'a> {
    /// Management class.
    pub class: u8,
    /// Method.
    pub method: u8,
    /// Attribute.
    pub attribute: u16,
    /// Attribute modifier.
    pub modifier: u32,
    /// M_Key of subnet management.
    pub m_key: u64,
    /// SM_Key of subnet administration.
    pub sm_key: u64,
    /// Component mask of subnet administration.
    pub component_mask: u64,
    /// OUI of a vendor class.
    pub oui: u32,
    /// The attribute's bytes; the rest is 0.
    pub data: &'a [u8],
    /// How long to wait for an answer; 0 means the default timeout.
    pub timeout_ms: u32,
}

impl Request<'_> {
    /// Writes the request into a zeroed MAD.
    pub fn write(&self, mad: &mut [u8], tid: u32, path: &DrPath) {
        let version = if self.class == CLASS_SUBN_ADM || self.class == CLASS_CC { 2 } else { 1 };
        let mut header =
            MadHeader::new(Class(self.class), version, Method(self.method), u64::from(tid), AttrId(self.attribute));
        header.set_attr_mod(self.modifier);
        put(mad, 0, header.as_bytes());
        match self.class {
            CLASS_SUBN_LID => put(mad, M_KEY_AT, &self.m_key.to_be_bytes()),
            CLASS_SUBN_DIRECTED => {
                put(mad, HOP_COUNT_AT, &[path.count as u8]);
                put(mad, M_KEY_AT, &self.m_key.to_be_bytes());
                put(mad, DR_SLID_AT, &or_permissive(path.dr_slid).to_be_bytes());
                put(mad, DR_DLID_AT, &or_permissive(path.dr_dlid).to_be_bytes());
                put(mad, INITIAL_PATH_AT, &path.path);
            }
            CLASS_SUBN_ADM => {
                put(mad, SM_KEY_AT, &self.sm_key.to_be_bytes());
                put(mad, COMPONENT_MASK_AT, &self.component_mask.to_be_bytes());
            }
            class if has_oui(class) => put(mad, OUI_AT, &self.oui.to_be_bytes()[1..]),
            _ => {}
        }
        put(mad, data_at(self.class), self.data);
    }
}

/// The offset of a class's data.
pub fn data_at(class: u8) -> usize {
    match class {
        CLASS_SUBN_ADM => SA_DATA_AT,
        class if has_oui(class) => VENDOR2_DATA_AT,
        0x09..=0x0f => VENDOR1_DATA_AT,
        _ => DATA_AT,
    }
}

/// Whether a class is a vendor class with OUI.
pub fn has_oui(class: u8) -> bool {
    (0x30..=0x4f).contains(&class)
}

/// The class version to register an agent with.
pub fn class_version(class: u8) -> u8 {
    if class == CLASS_SUBN_ADM || class == CLASS_CC { 2 } else { 1 }
}

/// The program's part of the transaction ID; the kernel uses the upper half.
pub fn tid(mad: &[u8]) -> u32 {
    u32::from_be_bytes(part(mad, 12))
}

/// The status. In directed-route SMPs its top bit is the direction.
pub fn status(mad: &[u8], class: u8) -> u16 {
    let status = u16::from_be_bytes(part(mad, STATUS_AT));
    // libibmad masks the status to fifteen bits for every class except subnet administration.
    if class == CLASS_SUBN_ADM { status } else { status & 0x7fff }
}

/// The management class.
pub fn class(mad: &[u8]) -> u8 {
    part::<1>(mad, 1)[0]
}

/// Turns a request into its answer: response bit, status 0, and an RMPP header if the answer is segmented.
pub fn make_response(mad: &mut [u8], is_segmented: bool) {
    let method = if method(mad) == SET { GET } else { method(mad) };
    put(mad, METHOD_AT, &[method | RESPONSE]);
    put(mad, STATUS_AT, &[0, 0]);
    put(mad, RMPP_AT, &[0; RMPP_LEN]);
    if is_segmented {
        put(mad, RMPP_AT, &[RMPP_VERSION, RMPP_DATA, RMPP_RESPONSE_TIME_NONE << 3 | RMPP_ACTIVE]);
    }
}

/// The method.
pub fn method(mad: &[u8]) -> u8 {
    part::<1>(mad, METHOD_AT)[0]
}

/// The attribute.
pub fn attribute(mad: &[u8]) -> u16 {
    u16::from_be_bytes(part(mad, 16))
}

/// The record length in units of 8 bytes.
pub fn attribute_offset(mad: &[u8]) -> u16 {
    u16::from_be_bytes(part(mad, ATTRIBUTE_OFFSET_AT))
}

/// Hex dump of bytes: pairs, eight to a line.
pub fn hex_dump(bytes: &[u8]) -> String {
    let lines = bytes.chunks(16).map(|line| {
        let pairs = line.chunks(2).map(|pair| pair.iter().map(|b| format!("{b:02x}")).collect::<String>());
        let text = pairs.collect::<Vec<_>>().join(" ");
        // A partial line keeps the blank after its last whole pair.
        let blank = if line.len() < 16 && line.len() % 2 == 0 { " " } else { "" };
        text + blank + "\n"
    });
    lines.collect()
}

fn or_permissive(lid: u16) -> u16 {
    if lid == 0 { LID_PERMISSIVE } else { lid }
}

fn part<const N: usize>(mad: &[u8], at: usize) -> [u8; N] {
    mad.get(at..at + N).and_then(|bytes| bytes.try_into().ok()).unwrap_or([0; N])
}

/// Copies as many bytes as fit.
fn put(mad: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(room) = mad.get_mut(at..) {
        let len = bytes.len().min(room.len());
        room[..len].copy_from_slice(&bytes[..len]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_have_their_class_specific_parts() {
        let path = DrPath::parse("0,1,4", 0).unwrap();
        let mut mad = [0; MAD_LEN];
        let request = Request {
            class: CLASS_SUBN_DIRECTED,
            method: GET,
            attribute: 0x15,
            modifier: 3,
            m_key: 7,
            ..Request::default()
        };
        request.write(&mut mad, 0x1234, &path);
        assert_eq!(mad[..8], [1, 0x81, 1, 1, 0, 0, 0, 2]);
        assert_eq!((tid(&mad), attribute(&mad), &mad[20..24]), (0x1234, 0x15, &[0, 0, 0, 3][..]));
        assert_eq!(mad[24..36], [0, 0, 0, 0, 0, 0, 0, 7, 0xff, 0xff, 0xff, 0xff]);
        assert_eq!(mad[128..131], [0, 1, 4]);

        let mut mad = [0; MAD_LEN];
        let sa = Request {
            class: CLASS_SUBN_ADM,
            method: GET,
            attribute: 0x35,
            sm_key: 1,
            component_mask: 0xc,
            data: &[9],
            ..Request::default()
        };
        sa.write(&mut mad, 1, &DrPath::default());
        assert_eq!((mad[2], mad[43], mad[55], mad[56]), (2, 1, 0xc, 9));

        let mut mad = [0; MAD_LEN];
        let ping = Request { class: CLASS_PING, method: GET, oui: OUI_OPENIB, data: &[9], ..Request::default() };
        ping.write(&mut mad, 1, &DrPath::default());
        assert_eq!(mad[36..41], [0, 0, 0x14, 0x05, 9]);
    }

    #[test]
    fn short_answers_read_as_zeroes() {
        assert_eq!((tid(&[]), status(&[1, 2, 3, 4, 0x80], 1), method(&[1])), (0, 0, 0));
    }

    #[test]
    fn dumps_are_eight_pairs_to_a_line() {
        assert_eq!(hex_dump(&[1, 2, 3]), "0102 03\n");
        assert_eq!(hex_dump(&[0; 18]), "0000 0000 0000 0000 0000 0000 0000 0000\n0000 \n");
    }
}
