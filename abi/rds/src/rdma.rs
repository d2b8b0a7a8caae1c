//! RDMA of RDS sockets (`<linux/rds.h>`): memory that a program offers to peers, and the control messages of sendmsg(2).

use std::ffi::c_void;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::Ordering;

use libc::{c_int, msghdr, socklen_t};
use weft_rds::limits::{RDMA_BYTES_MAX, RDMA_PIECES_MAX, REGION_BYTES_MAX};
use weft_rds::local::{LocalOperation, LocalPiece, OfferedRegion, Operation};
use weft_rds::{Cookie, Direction, RdmaOptions};
use weft_sys::page_file::PageFile;

use crate::failure::Failure;
use crate::names::{RECVERR, SOL_RDS};
use crate::pages;
use crate::piece::Piece;
use crate::service::{self, NOWHERE};
use crate::sockets::Socket;

/// Control message: an operation.
const CMSG_RDMA_ARGS: c_int = 1;
/// Control message: the cookie of the sender's memory, for the receiver.
pub const CMSG_RDMA_DEST: c_int = 2;
/// Control message: the sender's memory, which is offered and whose cookie goes to the receiver.
const CMSG_RDMA_MAP: c_int = 3;
/// Control message: the result of an operation.
pub const CMSG_RDMA_STATUS: c_int = 4;
/// Control messages of atomic operations.
const CMSG_ATOMICS: std::ops::RangeInclusive<c_int> = 6..=9;

const READWRITE: u64 = 0x01;
const FENCE: u64 = 0x02;
const USE_ONCE: u64 = 0x08;
const NOTIFY_ME: u64 = 0x20;
const SILENT: u64 = 0x40;

/// `struct rds_iovec`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Vector {
    address: u64,
    bytes: u64,
}

/// `struct rds_get_mr_args`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct OfferArgs {
    memory: Vector,
    cookie_address: u64,
    flags: u64,
}

/// `struct rds_get_mr_for_dest_args`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct OfferForArgs {
    destination: [u64; 16],
    args: OfferArgs,
}

/// `struct rds_free_mr_args`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct WithdrawArgs {
    cookie: u64,
    flags: u64,
}

/// `struct rds_rdma_args`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct OperationArgs {
    cookie: u64,
    remote: Vector,
    local_address: u64,
    local_count: u64,
    flags: u64,
    token: u64,
}

const _: () = assert!(size_of::<OfferArgs>() == 32 && size_of::<OfferForArgs>() == 160);
const _: () = assert!(size_of::<WithdrawArgs>() == 16 && size_of::<OperationArgs>() == 56);

/// # Safety
/// There are `length` readable bytes at `value`, and any bytes are a `T`.
unsafe fn argument<T>(value: *const c_void, length: socklen_t) -> Result<T, Failure> {
    if length as usize != size_of::<T>() {
        return Err(Failure(libc::EINVAL));
    }
    if value.is_null() {
        return Err(Failure(libc::EFAULT));
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { value.cast::<T>().read_unaligned() })
}

/// RDS_GET_MR.
///
/// # Safety
/// There are `length` readable bytes at `value`.
pub unsafe fn offer(
    fd: BorrowedFd<'_>,
    socket: &Socket,
    value: *const c_void,
    length: socklen_t,
) -> Result<(), Failure> {
    // SAFETY: the caller's promise; numbers alone.
    offer_memory(fd, socket, &unsafe { argument(value, length) }?).map(drop)
}

/// RDS_GET_MR_FOR_DEST: the memory is offered to all peers, as on Linux.
///
/// # Safety
/// There are `length` readable bytes at `value`.
pub unsafe fn offer_for(
    fd: BorrowedFd<'_>,
    socket: &Socket,
    value: *const c_void,
    length: socklen_t,
) -> Result<(), Failure> {
    // SAFETY: the caller's promise; numbers alone.
    let args: OfferForArgs = unsafe { argument(value, length) }?;
    offer_memory(fd, socket, &args.args).map(drop)
}

/// RDS_FREE_MR. No key stays valid after it, so cookie 0, which asks for just that, changes nothing.
///
/// # Safety
/// There are `length` readable bytes at `value`.
pub unsafe fn withdraw(
    fd: BorrowedFd<'_>,
    socket: &Socket,
    value: *const c_void,
    length: socklen_t,
) -> Result<(), Failure> {
    // SAFETY: the caller's promise; numbers alone.
    let args: WithdrawArgs = unsafe { argument(value, length) }?;
    if socket.bound().is_none() {
        return Err(Failure(libc::EINVAL));
    }
    Cookie::of(args.cookie).map_or(Ok(()), |cookie| withdraw_key(fd, cookie.key))
}

fn withdraw_key(fd: BorrowedFd<'_>, key: u32) -> Result<(), Failure> {
    service::call(fd, Operation::Withdraw, NOWHERE, key.into()).map(drop)
}

/// Offers memory; writes its cookie where the program wants it.
fn offer_memory(fd: BorrowedFd<'_>, socket: &Socket, args: &OfferArgs) -> Result<Cookie, Failure> {
    if socket.bound().is_none() {
        return Err(Failure(libc::ENOTCONN));
    }
    let Vector { address, bytes } = args.memory;
    if address.checked_add(bytes).is_none_or(|end| end <= address) || bytes > u32::MAX.into() {
        return Err(Failure(libc::EINVAL));
    }
    if bytes > REGION_BYTES_MAX {
        return Err(Failure(libc::EMSGSIZE));
    }
    if args.cookie_address != 0 {
        checked(args.cookie_address, 8, true)?;
    }
    let file = pages::take_in(address, bytes)?;
    let memory = LocalPiece { address, length: bytes };
    let region = OfferedRegion { memory, is_used_once: args.flags & USE_ONCE != 0 };
    let key = service::offer(fd, &region, file.as_fd())?;
    let page = rustix::param::page_size() as u64;
    let cookie = Cookie { key, offset: (address % page) as u32 };
    if args.cookie_address != 0 {
        let place: *mut u64 = std::ptr::with_exposed_provenance_mut(args.cookie_address as usize);
        // SAFETY: the program's own variable, which is writable.
        unsafe { place.write_unaligned(Cookie::number(Some(cookie))) };
    }
    Ok(cookie)
}

/// Fails as the kernel does if memory is not there.
fn checked(address: u64, length: u64, writes: bool) -> Result<(), Failure> {
    weft_sys::mapping::check(address, length, writes).map_err(|_| Failure(libc::EFAULT))
}

/// Memory for the receiver of a datagram.
#[derive(Clone, Copy, Debug)]
enum Destination {
    /// It is offered already.
    Offered(Cookie),
    /// It is offered now.
    New(OfferArgs),
}

/// Control messages of a call of sendmsg(2).
#[derive(Clone, Copy, Default, Debug)]
pub struct Control {
    operation: Option<OperationArgs>,
    destination: Option<Destination>,
}

/// Parts of a datagram that come from its control messages.
#[derive(Default, Debug)]
pub struct Extras {
    /// Operation before the datagram.
    pub operation: Option<LocalOperation>,
    /// Data of a WRITE.
    pub data: Vec<Piece>,
    /// Memory for the receiver.
    pub destination: Option<Cookie>,
    /// Page file for the data of a READ.
    pub pages: Option<&'static PageFile>,
    /// The destination is offered by this datagram, and ends if the datagram is not sent.
    is_new: bool,
}

impl Control {
    /// Reads the control messages.
    ///
    /// # Safety
    /// The message is one for sendmsg(2).
    pub unsafe fn of(message: &msghdr) -> Result<Control, Failure> {
        let mut control = Control::default();
        // SAFETY: the caller's promise; a header lies within the buffer as far as its length says.
        unsafe {
            let mut header = libc::CMSG_FIRSTHDR(message);
            while !header.is_null() {
                let length = (*header).cmsg_len;
                let end = header.cast::<u8>().addr() - message.msg_control.addr() + length;
                if length < size_of::<libc::cmsghdr>() || end > message.msg_controllen {
                    return Err(Failure(libc::EINVAL));
                }
                if (*header).cmsg_level == SOL_RDS {
                    control.add((*header).cmsg_type, libc::CMSG_DATA(header), length - libc::CMSG_LEN(0) as usize)?;
                }
                header = libc::CMSG_NXTHDR(message, header);
            }
        }
        if control.operation.is_some() && control.destination.is_some() {
            return Err(Failure(libc::EINVAL));
        }
        Ok(control)
    }

    /// # Safety
    /// There are `length` readable bytes at `data`.
    unsafe fn add(&mut self, kind: c_int, data: *const u8, length: usize) -> Result<(), Failure> {
        /// # Safety
        /// There are `length` readable bytes at `data`, and any bytes are a `T`.
        unsafe fn first<T>(data: *const u8, length: usize) -> Result<T, Failure> {
            if length < size_of::<T>() {
                return Err(Failure(libc::EINVAL));
            }
            // SAFETY: the caller's promise.
            Ok(unsafe { data.cast::<T>().read_unaligned() })
        }
        // SAFETY: the caller's promise, for each of them; numbers alone.
        unsafe {
            match kind {
                CMSG_RDMA_ARGS if self.operation.is_none() => self.operation = Some(first(data, length)?),
                CMSG_RDMA_DEST if self.destination.is_none() => {
                    self.destination = Cookie::of(first(data, length)?).map(Destination::Offered);
                    self.destination.ok_or(Failure(libc::EINVAL))?;
                }
                CMSG_RDMA_MAP if self.destination.is_none() => {
                    self.destination = Some(Destination::New(first(data, length)?));
                }
                kind if CMSG_ATOMICS.contains(&kind) => return Err(Failure(libc::EOPNOTSUPP)),
                _ => return Err(Failure(libc::EINVAL)),
            }
        }
        Ok(())
    }

    /// Makes the memory ready that the control messages name.
    pub fn prepare(&self, fd: BorrowedFd<'_>, socket: &Socket) -> Result<Extras, Failure> {
        let mut extras = Extras::default();
        if let Some(args) = &self.operation {
            begin(socket, args, &mut extras)?;
        }
        match &self.destination {
            Some(Destination::Offered(cookie)) => {
                service::call(fd, Operation::Check, NOWHERE, cookie.key.into())?;
                extras.destination = Some(*cookie);
            }
            Some(Destination::New(args)) => {
                extras.destination = Some(offer_memory(fd, socket, args)?);
                extras.is_new = true;
            }
            None => {}
        }
        Ok(extras)
    }
}

impl Extras {
    /// The datagram is not sent.
    pub fn abandon(&self, fd: BorrowedFd<'_>) {
        if let Some(cookie) = self.destination.filter(|_| self.is_new) {
            let _ = withdraw_key(fd, cookie.key);
        }
    }
}

/// Makes an operation of its arguments. The data of a WRITE is copied when the datagram is sent.
fn begin(socket: &Socket, args: &OperationArgs, extras: &mut Extras) -> Result<(), Failure> {
    if args.remote.bytes > RDMA_BYTES_MAX as u64 || args.local_count > RDMA_PIECES_MAX as u64 {
        return Err(Failure(libc::EMSGSIZE));
    }
    if args.local_count == 0 {
        return Err(Failure(libc::EINVAL));
    }
    let vectors = vectors(args.local_address, args.local_count as usize)?;
    let is_valid =
        |vector: &Vector| vector.bytes > 0 && vector.address.checked_add(vector.bytes).is_some_and(|end| end > 0);
    let sum = vectors.iter().try_fold(0_u64, |sum, vector| sum.checked_add(vector.bytes));
    let length = sum.filter(|sum| *sum <= args.remote.bytes && vectors.iter().all(is_valid));
    let length = length.ok_or(Failure(libc::EINVAL))? as u32;
    let direction = if args.flags & READWRITE != 0 { Direction::Write } else { Direction::Read };
    let mut pieces = Vec::new();
    for Vector { address, bytes } in vectors {
        if direction == Direction::Write {
            checked(address, bytes, false)?;
            let address = std::ptr::with_exposed_provenance(address as usize);
            extras.data.push(Piece { address, length: bytes as usize });
        } else {
            extras.pages = Some(pages::take_in(address, bytes)?);
            pieces.push(LocalPiece { address, length: bytes });
        }
    }
    let cookie = Cookie::of(args.cookie).unwrap_or(Cookie { key: 0, offset: 0 });
    let has = |flag| args.flags & flag != 0;
    extras.operation = Some(LocalOperation {
        direction,
        options: RdmaOptions {
            is_fenced: has(FENCE),
            is_silent: has(SILENT),
            notifies: has(NOTIFY_ME),
            reports_errors: socket.switches.load(Ordering::Relaxed) & (1 << RECVERR) != 0,
        },
        key: cookie.key,
        address: args.remote.address.wrapping_add(cookie.offset.into()),
        token: args.token,
        length,
        pieces,
    });
    Ok(())
}

/// Reads the list of an operation's local memory.
fn vectors(address: u64, count: usize) -> Result<Vec<Vector>, Failure> {
    checked(address, (count * size_of::<Vector>()) as u64, false)?;
    let list: *const Vector = std::ptr::with_exposed_provenance(address as usize);
    // SAFETY: the list is mapped and readable; it may lie at any address.
    Ok((0..count).map(|at| unsafe { list.wrapping_add(at).read_unaligned() }).collect())
}
