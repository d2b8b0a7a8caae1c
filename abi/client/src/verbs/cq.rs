//! Completion queues, and the channels that wake up their waiters.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, RawFd};
use std::rc::Rc;

use weft_abi_types::{
    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP, IBV_WC_WITH_INV, ibv_comp_channel, ibv_cq, ibv_cq_ex, ibv_cq_init_attr_ex,
    ibv_poll_cq_attr, ibv_wc, inlines,
};

use super::{Context, Library, check, check_ptr};

/// A completion channel, shared by its clones.
#[derive(Clone, Debug)]
pub struct Channel(Rc<ChannelInner>);

#[derive(Debug)]
struct ChannelInner {
    context: Context,
    ptr: *mut ibv_comp_channel,
}

impl Channel {
    /// Creates a channel.
    pub fn new(context: &Context) -> io::Result<Channel> {
        // SAFETY: the context is open.
        let ptr = check_ptr(unsafe { (context.library().verbs.ibv_create_comp_channel)(context.ptr()) })?;
        Ok(Channel(Rc::new(ChannelInner { context: context.clone(), ptr })))
    }

    /// File descriptor, readable when an event is pending.
    pub fn fd(&self) -> RawFd {
        // SAFETY: the channel is alive; its descriptor does not change.
        unsafe { (*self.0.ptr).fd }
    }

    /// Waits for an event of a completion queue that requested notification, and acknowledges it. Returns `false` if
    /// the event is for another queue than `expected`.
    pub fn wait(&self, expected: &Cq) -> io::Result<bool> {
        let verbs = self.0.context.library().verbs;
        let mut cq = std::ptr::null_mut();
        let mut cookie = std::ptr::null_mut();
        // SAFETY: the channel is alive; the call writes two pointers, the first of them to a live queue.
        unsafe {
            check((verbs.ibv_get_cq_event)(self.0.ptr, &mut cq, &mut cookie))?;
            (verbs.ibv_ack_cq_events)(cq, 1);
        }
        Ok(cq == expected.ptr())
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor is open as long as the channel.
        unsafe { BorrowedFd::borrow_raw(self.fd()) }
    }
}

impl Drop for ChannelInner {
    fn drop(&mut self) {
        // SAFETY: the queues of the channel held a clone of it and are gone.
        unsafe { (self.context.library().verbs.ibv_destroy_comp_channel)(self.ptr) };
    }
}

/// A work completion.
#[derive(Clone, Copy)]
pub struct Wc(ibv_wc);

impl Wc {
    /// The work request's ID.
    pub fn wr_id(&self) -> u64 {
        self.0.wr_id
    }

    /// `enum ibv_wc_status`; 0 is success.
    pub fn status(&self) -> u32 {
        self.0.status
    }

    /// `enum ibv_wc_opcode`; valid on success.
    pub fn opcode(&self) -> u32 {
        self.0.opcode
    }

    /// Bytes received or read.
    pub fn byte_len(&self) -> u32 {
        self.0.byte_len
    }

    /// Immediate data of a receive, as a number.
    pub fn imm(&self) -> u32 {
        // SAFETY: both members of the union are plain numbers.
        u32::from_be(unsafe { self.0.imm.imm_data })
    }

    /// `IBV_WC_*` flags.
    pub fn flags(&self) -> u32 {
        self.0.wc_flags
    }

    /// Key that the peer's SEND invalidated, if it did.
    pub fn invalidated(&self) -> Option<u32> {
        // SAFETY: both members of the union are plain numbers.
        let key = unsafe { self.0.imm.invalidated_rkey };
        (self.0.wc_flags & IBV_WC_WITH_INV != 0).then_some(key)
    }

    pub(super) fn raw(&self) -> &ibv_wc {
        &self.0
    }

    /// Number of the queue pair that completed the request.
    pub fn qp_num(&self) -> u32 {
        self.0.qp_num
    }
}

/// A completion queue, shared by its clones.
#[derive(Clone, Debug)]
pub struct Cq(Rc<CqInner>);

#[derive(Debug)]
struct CqInner {
    context: Context,
    channel: Option<Channel>,
    ptr: *mut ibv_cq,
}

impl Cq {
    /// Creates a queue with room for `entries`.
    pub fn new(context: &Context, entries: u32, channel: Option<&Channel>) -> io::Result<Cq> {
        let entries = i32::try_from(entries).map_err(|_| io::ErrorKind::InvalidInput)?;
        let channel_ptr = channel.map_or(std::ptr::null_mut(), |c| c.0.ptr);
        // SAFETY: context and channel are alive, and stay so as long as the queue (it holds clones).
        let ptr = check_ptr(unsafe {
            (context.library().verbs.ibv_create_cq)(context.ptr(), entries, std::ptr::null_mut(), channel_ptr, 0)
        })?;
        Ok(Cq::wrap(context, channel, ptr))
    }

    fn wrap(context: &Context, channel: Option<&Channel>, ptr: *mut ibv_cq) -> Cq {
        Cq(Rc::new(CqInner { context: context.clone(), channel: channel.cloned(), ptr }))
    }

    pub(crate) fn ptr(&self) -> *mut ibv_cq {
        self.0.ptr
    }

    /// The library of the queue.
    pub fn library(&self) -> Library {
        self.0.context.library()
    }

    /// The channel for the queue's events.
    pub fn channel(&self) -> Option<&Channel> {
        self.0.channel.as_ref()
    }

    /// Polls for up to `N` completions, passes each to `on_wc`, and returns their number.
    #[inline]
    pub fn poll<const N: usize>(&self, mut on_wc: impl FnMut(&Wc)) -> io::Result<usize> {
        let mut entries = [const { MaybeUninit::<ibv_wc>::uninit() }; N];
        // SAFETY: the queue is alive and there is room for N entries.
        let n = unsafe { inlines::ibv_poll_cq(self.0.ptr, N as i32, entries.as_mut_ptr().cast()) };
        let n = usize::try_from(n).map_err(|_| io::Error::from_raw_os_error(-n))?;
        for entry in &entries[..n.min(N)] {
            // SAFETY: the library filled the first n entries.
            on_wc(&Wc(unsafe { entry.assume_init() }));
        }
        Ok(n)
    }

    /// Asks for an event on the channel at the next completion.
    pub fn request_notify(&self) -> io::Result<()> {
        // SAFETY: the queue is alive.
        check(unsafe { inlines::ibv_req_notify_cq(self.0.ptr, 0) })
    }

    /// The library's name of a completion status.
    pub fn status_text(&self, status: u32) -> String {
        // SAFETY: the call takes any number and returns a string that lives for good.
        let text = unsafe { std::ffi::CStr::from_ptr((self.library().verbs.ibv_wc_status_str)(status)) };
        text.to_string_lossy().into_owned()
    }
}

impl Drop for CqInner {
    fn drop(&mut self) {
        // SAFETY: the queue pairs and shared receive queues that complete here held a clone and are gone, and
        // every event was acknowledged when it was taken.
        unsafe { (self.context.library().verbs.ibv_destroy_cq)(self.ptr) };
    }
}

/// A completion queue whose completions carry the adapter's timestamps.
#[derive(Clone, Debug)]
pub struct TimestampCq {
    cq: Cq,
    ptr: *mut ibv_cq_ex,
}

impl TimestampCq {
    /// Creates a queue with room for `entries`.
    pub fn new(context: &Context, entries: u32, channel: Option<&Channel>) -> io::Result<TimestampCq> {
        let mut attr = ibv_cq_init_attr_ex {
            cqe: entries,
            cq_context: std::ptr::null_mut(),
            channel: channel.map_or(std::ptr::null_mut(), |c| c.0.ptr),
            comp_vector: 0,
            wc_flags: IBV_WC_EX_WITH_COMPLETION_TIMESTAMP.into(),
            comp_mask: 0,
            flags: 0,
            parent_domain: std::ptr::null_mut(),
        };
        // SAFETY: context and channel are alive, and stay so as long as the queue.
        let ptr = check_ptr(unsafe { inlines::ibv_create_cq_ex(context.ptr(), &mut attr) })?;
        Ok(TimestampCq {
            // An extended queue starts with a plain one (ibv_cq_ex_to_cq is a cast).
            cq: Cq::wrap(context, channel, ptr.cast()),
            ptr,
        })
    }

    /// The plain queue, for everything but polling.
    pub fn cq(&self) -> &Cq {
        &self.cq
    }

    /// Polls for up to `most` completions and passes each on as (wr_id, status, timestamp in adapter clock cycles).
    pub fn poll(&self, most: usize, mut on_wc: impl FnMut(u64, u32, u64)) -> io::Result<usize> {
        let mut attr = ibv_poll_cq_attr { comp_mask: 0 };
        // SAFETY: the queue is alive, was created with timestamps, and the calls come in the order that
        // ibv_start_poll(3) demands.
        unsafe {
            match inlines::ibv_start_poll(self.ptr, &mut attr) {
                0 => {}
                libc::ENOENT => return Ok(0),
                errno => return Err(io::Error::from_raw_os_error(errno)),
            }
            let mut taken = 0;
            loop {
                let time = inlines::ibv_wc_read_completion_ts(self.ptr);
                on_wc((*self.ptr).wr_id, (*self.ptr).status, time);
                taken += 1;
                if taken >= most || inlines::ibv_next_poll(self.ptr) != 0 {
                    break;
                }
            }
            inlines::ibv_end_poll(self.ptr);
            Ok(taken)
        }
    }
}
