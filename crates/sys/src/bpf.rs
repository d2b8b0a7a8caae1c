//! The classic BPF programs that Weft attaches to sockets. They need no privilege.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Bits of a QP number that index within a slot; the bits above them are the slot number.
pub const QPN_INDEX_BITS: u32 = 14;

const LD_W_ABS: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const AND_K: u16 = (libc::BPF_ALU | libc::BPF_AND | libc::BPF_K) as u16;
const RSH_K: u16 = (libc::BPF_ALU | libc::BPF_RSH | libc::BPF_K) as u16;
const RET_A: u16 = (libc::BPF_RET | BPF_A) as u16;
const RET_K: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
const BPF_A: u32 = 0x10;

const fn op(code: u16, k: u32) -> libc::sock_filter {
    libc::sock_filter { code, jt: 0, jf: 0, k }
}

/// Selects the socket of a reuseport group by the slot in the BTH's destination QP: bytes 4..8 of the UDP payload are
/// a reserved byte and the 24-bit number.
const STEER_BY_QPN: [libc::sock_filter; 4] =
    [op(LD_W_ABS, 4), op(AND_K, 0x00ff_ffff), op(RSH_K, QPN_INDEX_BITS), op(RET_A, 0)];

const DROP_ALL: [libc::sock_filter; 1] = [op(RET_K, 0)];

fn attach(fd: impl AsFd, option: i32, program: &[libc::sock_filter]) -> io::Result<()> {
    // The kernel only reads the program, whatever the type of the pointer says.
    let fprog = libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    // SAFETY: `fprog` names `program`, both live across the call, and the kernel copies them.
    let rc = unsafe {
        libc::setsockopt(
            fd.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            (&raw const fprog).cast(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Steers the packets of this socket's SO_REUSEPORT group by destination QP number.
pub fn steer_by_qpn(fd: impl AsFd) -> io::Result<()> {
    attach(fd, libc::SO_ATTACH_REUSEPORT_CBPF, &STEER_BY_QPN)
}

/// Makes the kernel drop every packet that would reach this socket, at no memory cost.
pub fn drop_all(fd: impl AsFd) -> io::Result<()> {
    attach(fd, libc::SO_ATTACH_FILTER, &DROP_ALL)
}

/// Admits only frames that carry a BTH after `offset` bytes and whose destination queue pair is in `slot` or is the QP
/// number of multicast packets.
pub fn accept_slot(fd: impl AsFd, offset: u32, slot: u32) -> io::Result<()> {
    const JEQ_K: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const MULTICAST_QPN: u32 = 0x00ff_ffff;
    let jump = |k, jt, jf| libc::sock_filter { code: JEQ_K, jt, jf, k };
    let program = [
        op(LD_W_ABS, offset + 4),
        op(AND_K, 0x00ff_ffff),
        jump(MULTICAST_QPN, 2, 0),
        op(RSH_K, QPN_INDEX_BITS),
        jump(slot, 0, 1),
        op(RET_K, u32::MAX),
        op(RET_K, 0),
    ];
    attach(fd, libc::SO_ATTACH_FILTER, &program)
}

/// Undoes [`drop_all`].
pub fn accept_all(fd: impl AsFd) -> io::Result<()> {
    match super::sockopt::set_int(fd, libc::SOL_SOCKET, libc::SO_DETACH_FILTER, 0) {
        // No filter was attached.
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(()),
        result => result,
    }
}
