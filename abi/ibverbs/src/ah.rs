//! Address handles, and addresses derived from received packets.

use libc::c_int;
use std::cell::UnsafeCell;
use weft_abi_types::{IBV_WC_GRH, ibv_ah, ibv_ah_attr, ibv_context, ibv_gid, ibv_grh, ibv_pd, ibv_wc};
use weft_hca::AhRequest;
use weft_verbs::{AddressVector, Gid, GidType};

use crate::errors::{code, fail_minus_one, pointer};
use crate::object::{Object, zeroed};
use crate::pd::Pd;

/// An address handle.
#[repr(C)]
pub(crate) struct Ah {
    public: UnsafeCell<ibv_ah>,
    pub(crate) av: AddressVector,
}

// SAFETY: repr(C), the public structure first.
unsafe impl Object for Ah {
    type Public = ibv_ah;
}

/// Converts an address to the adapter's form.
pub(crate) fn request_of(attr: &ibv_ah_attr) -> AhRequest {
    AhRequest {
        // SAFETY: sixteen bytes, valid through either member of the union.
        dgid: Gid(unsafe { attr.grh.dgid.raw }),
        sgid_index: attr.grh.sgid_index,
        flow_label: attr.grh.flow_label,
        hop_limit: attr.grh.hop_limit,
        traffic_class: attr.grh.traffic_class,
        sl: attr.sl,
        dlid: attr.dlid,
        src_path_bits: attr.src_path_bits,
        static_rate: attr.static_rate,
        is_global: attr.is_global != 0,
        port_num: attr.port_num,
    }
}

/// Converts an address to its C form.
pub(crate) fn attr_of(av: &AddressVector) -> ibv_ah_attr {
    let mut attr: ibv_ah_attr = zeroed();
    attr.grh.dgid = ibv_gid { raw: av.dgid.0 };
    attr.grh.flow_label = av.flow_label;
    attr.grh.sgid_index = av.sgid_index;
    attr.grh.hop_limit = av.hop_limit;
    attr.grh.traffic_class = av.traffic_class;
    attr.dlid = av.dlid;
    attr.sl = av.sl;
    attr.src_path_bits = av.src_path_bits;
    attr.static_rate = av.static_rate;
    attr.is_global = u8::from(av.is_global);
    attr.port_num = av.port_num;
    attr
}

fn create(pd: *mut ibv_pd, attr: *mut ibv_ah_attr) -> Result<*mut ibv_ah, c_int> {
    if pd.is_null() || attr.is_null() {
        return Err(libc::EINVAL);
    }
    // SAFETY: a domain of ours, and the caller's attributes.
    let (this, request) = unsafe { (Pd::of(pd), request_of(&*attr)) };
    let device = this.context().device;
    let av = this.process().control(|hca, _| {
        let av = hca.resolve_av(device, &request)?;
        hca.hold_pd(this.id)?;
        Ok(av)
    })?;
    this.hold();
    let mut public: ibv_ah = zeroed();
    // SAFETY: as above.
    public.context = unsafe { (*pd).context };
    public.pd = pd;
    Ok(Ah { public: UnsafeCell::new(public), av }.leak())
}

/// Creates an address handle.
pub extern "C" fn ibv_create_ah(pd: *mut ibv_pd, attr: *mut ibv_ah_attr) -> *mut ibv_ah {
    pointer(create(pd, attr))
}

/// Destroys an address handle. Work requests posted with it keep its address.
pub unsafe extern "C" fn ibv_destroy_ah(ah: *mut ibv_ah) -> c_int {
    if ah.is_null() {
        return code(Err(libc::EINVAL));
    }
    // SAFETY: a handle of ours, whose domain outlives it; the program gives it up.
    unsafe {
        let pd = (*ah).pd;
        let domain = Pd::of(pd);
        let released = domain.process().control(|hca, _| {
            hca.release_pd(domain.id);
            Ok(())
        });
        Pd::release(pd);
        Ah::free(ah);
        code(released)
    }
}

/// The two addresses of a received packet, and its framing.
struct Received {
    from: Gid,
    to: Gid,
    kind: GidType,
    hop_limit: u8,
    traffic_class: u8,
}

/// Next header of a GRH before a BTH (RoCE v1), and of a GRH that represents an IPv6 header (RoCE v2).
const NEXT_HEADER_IBA: u8 = 0x1b;
const NEXT_HEADER_UDP: u8 = 17;

/// Parses the 40 bytes in front of a datagram: a GRH, an IPv6 header, or twenty unused bytes and an IPv4 header.
fn parse(bytes: &[u8; 40]) -> Result<Received, c_int> {
    let (_, ip4) = bytes.split_at(20);
    if ip4[0] == 0x45 && (bytes[0] >> 4 != 6 || ip4_checksum_holds(ip4)) {
        let mapped = |at: usize| Gid::from(std::net::IpAddr::from([ip4[at], ip4[at + 1], ip4[at + 2], ip4[at + 3]]));
        return Ok(Received {
            from: mapped(12),
            to: mapped(16),
            kind: GidType::RoceV2,
            hop_limit: ip4[8],
            traffic_class: ip4[1],
        });
    }
    if bytes[0] >> 4 != 6 {
        return Err(libc::EPROTONOSUPPORT);
    }
    let gid = |at: usize| Gid(std::array::from_fn(|i| bytes[at + i]));
    Ok(Received {
        from: gid(8),
        to: gid(24),
        kind: match bytes[6] {
            NEXT_HEADER_UDP => GidType::RoceV2,
            NEXT_HEADER_IBA => GidType::IbOrRoceV1,
            _ => return Err(libc::EPROTONOSUPPORT),
        },
        hop_limit: bytes[7],
        traffic_class: bytes[0] << 4 | bytes[1] >> 4,
    })
}

/// Whether the Internet checksum over a whole header is all ones.
fn ip4_checksum_holds(header: &[u8]) -> bool {
    let sum: u32 = header.chunks_exact(2).map(|c| u32::from(u16::from_be_bytes([c[0], c[1]]))).sum();
    (sum & 0xffff) + (sum >> 16) == 0xffff
}

fn init_from_wc(
    context: *mut ibv_context,
    port_num: u8,
    wc: *mut ibv_wc,
    grh: *mut ibv_grh,
) -> Result<ibv_ah_attr, c_int> {
    if context.is_null() || wc.is_null() {
        return Err(libc::EINVAL);
    }
    let mut attr: ibv_ah_attr = zeroed();
    // SAFETY: the caller's completion.
    let wc = unsafe { &*wc };
    attr.dlid = wc.slid;
    attr.sl = wc.sl;
    attr.src_path_bits = wc.dlid_path_bits;
    attr.port_num = port_num;
    if wc.wc_flags & IBV_WC_GRH == 0 {
        return Ok(attr);
    }
    if grh.is_null() {
        return Err(libc::EINVAL);
    }
    // SAFETY: the completion says that a header of 40 bytes is there; it may be at any address.
    let bytes: [u8; 40] = unsafe { grh.cast::<[u8; 40]>().read_unaligned() };
    let received = parse(&bytes)?;
    if received.to.is_multicast() {
        return Err(libc::EINVAL);
    }
    let port = crate::port::port_of(context, port_num.into())?;
    let row = port.gids.iter().find(|row| row.gid == received.to && row.gid_type == received.kind);
    let row = row.ok_or(libc::ENOENT)?;
    attr.is_global = 1;
    attr.grh.dgid = ibv_gid { raw: received.from.0 };
    attr.grh.sgid_index = row.index as u8;
    attr.grh.flow_label = u32::from_be_bytes([0, bytes[1] & 0xf, bytes[2], bytes[3]]);
    attr.grh.hop_limit = received.hop_limit;
    attr.grh.traffic_class = received.traffic_class;
    Ok(attr)
}

/// Derives the address of a datagram's sender.
pub unsafe extern "C" fn ibv_init_ah_from_wc(
    context: *mut ibv_context,
    port_num: u8,
    wc: *mut ibv_wc,
    grh: *mut ibv_grh,
    ah_attr: *mut ibv_ah_attr,
) -> c_int {
    if ah_attr.is_null() {
        return fail_minus_one(libc::EINVAL);
    }
    match init_from_wc(context, port_num, wc, grh) {
        Err(errno) => fail_minus_one(errno),
        Ok(attr) => {
            // SAFETY: the caller's place for the answer.
            unsafe { *ah_attr = attr };
            0
        }
    }
}

/// Creates an address handle for a datagram's sender.
pub unsafe extern "C" fn ibv_create_ah_from_wc(
    pd: *mut ibv_pd,
    wc: *mut ibv_wc,
    grh: *mut ibv_grh,
    port_num: u8,
) -> *mut ibv_ah {
    if pd.is_null() {
        return pointer(Err(libc::EINVAL));
    }
    // SAFETY: a domain of ours.
    let context = unsafe { (*pd).context };
    pointer(init_from_wc(context, port_num, wc, grh).and_then(|mut attr| create(pd, &raw mut attr)))
}
