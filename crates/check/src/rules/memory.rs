//! Rules of memory: buffers of outstanding requests, memory regions and keys.

use crate::rule::rules;

rules! { MEMORY:
    BUFFER_CHANGED = "buffer-changed", Error,
        "The program changes a send buffer before the request completes.",
        "ibv_post_send(3); IBA vol. 1, 10.8.3",
        "Leave the buffer alone until the completion is polled, or post with IBV_SEND_INLINE.";
    BUFFER_UNMAPPED = "buffer-unmapped", Error,
        "The program unmaps memory that an outstanding request uses.",
        "ibv_post_send(3), ibv_post_recv(3)",
        "Poll the request's completion, or destroy the queue pair, before unmapping the memory.";
    REGION_UNMAPPED = "region-unmapped", Warning,
        "The program unmaps memory that a memory region covers.",
        "ibv_reg_mr(3); IBA vol. 1, 10.6.3",
        "Call ibv_dereg_mr before munmap or free: the device keeps the old pages.";
    REGION_IN_USE = "region-in-use", Error,
        "The program deregisters a memory region that an outstanding request names.",
        "ibv_dereg_mr(3); IBA vol. 1, 10.6.5",
        "Poll the request's completion, or destroy the queue pair, before ibv_dereg_mr.";
    KEY_UNKNOWN = "key-unknown", Error,
        "A request names an L_Key that no memory region of the device has.",
        "ibv_post_send(3), ibv_post_recv(3); IBA vol. 1, 10.6.3",
        "Use the lkey of the memory region that covers the buffer; the rkey is for the peer.";
    KEY_STALE = "key-stale", Error,
        "A request names the L_Key of a deregistered memory region.",
        "ibv_dereg_mr(3); IBA vol. 1, 10.6.5",
        "Register the buffer again, or keep the memory region until all requests are posted and complete.";
    KEY_WRONG_PD = "key-wrong-pd", Error,
        "A request names a memory region of another protection domain than its queue.",
        "IBA vol. 1, 10.2.3; ibv_reg_mr(3)",
        "Register the buffer in the protection domain of the queue pair or shared receive queue.";
    KEY_OUT_OF_RANGE = "key-out-of-range", Error,
        "A buffer of a request lies outside its memory region.",
        "ibv_reg_mr(3); IBA vol. 1, 10.6.3",
        "Compare address and length with those of the registration.";
    KEY_NO_ACCESS = "key-no-access", Error,
        "A receive, READ or atomic names a memory region without IBV_ACCESS_LOCAL_WRITE.",
        "ibv_reg_mr(3); IBA vol. 1, 10.6.3",
        "Register the buffer with IBV_ACCESS_LOCAL_WRITE.";
    REMOTE_ACCESS_WITHOUT_LOCAL = "remote-access-without-local", Error,
        "The program registers memory for remote WRITE or atomics without IBV_ACCESS_LOCAL_WRITE.",
        "ibv_reg_mr(3)",
        "Add IBV_ACCESS_LOCAL_WRITE to the access flags.";
    ATOMIC_MISALIGNED = "atomic-misaligned", Error,
        "An atomic operation names a remote address that is no multiple of 8.",
        "IBA vol. 1, 9.4.5; ibv_post_send(3)",
        "Align the remote variable to 8 bytes.";
    ATOMIC_LENGTH = "atomic-length", Error,
        "The buffer for an atomic operation's result is not 8 bytes long.",
        "IBA vol. 1, 9.4.5; ibv_post_send(3)",
        "Give the request one buffer of 8 bytes.";
    FORK_UNPROTECTED = "fork-unprotected", Warning,
        "The program forks with registered memory and without ibv_fork_init on a kernel that needs it.",
        "ibv_fork_init(3)",
        "Call ibv_fork_init before the first registration, or set IBV_FORK_SAFE=1.";
    WINDOW_WITHOUT_ACCESS = "window-without-access", Error,
        "The program binds a memory window to a memory region without IBV_ACCESS_MW_BIND.",
        "ibv_bind_mw(3)",
        "Register the memory region with IBV_ACCESS_MW_BIND.";
    WINDOW_WRONG_PD = "window-wrong-pd", Error,
        "The program binds a memory window to a memory region of another protection domain.",
        "ibv_bind_mw(3); IBA vol. 1, 10.2.3",
        "Allocate the window, the region and the queue pair in one protection domain.";
    WINDOW_OUT_OF_RANGE = "window-out-of-range", Error,
        "The program binds a memory window to a range outside the memory region.",
        "ibv_bind_mw(3)",
        "Compare address and length with those of the memory region.";
}
