//! Rules of queues: capacities, requests that a queue cannot carry, and order between requests.

use crate::rule::rules;

rules! { QUEUES:
    SEND_QUEUE_FULL = "send-queue-full", Error,
        "The program posts more requests than the send queue holds.",
        "ibv_post_send(3), ibv_create_qp(3)",
        "Poll completions before posting more, or create the queue pair with a larger max_send_wr.";
    RECEIVE_QUEUE_FULL = "receive-queue-full", Error,
        "The program posts more receives than the receive queue holds.",
        "ibv_post_recv(3), ibv_create_qp(3)",
        "Post at most max_recv_wr receives at a time.";
    SRQ_FULL = "srq-full", Error,
        "The program posts more receives than the shared receive queue holds.",
        "ibv_post_srq_recv(3), ibv_create_srq(3)",
        "Post at most max_wr receives at a time.";
    CQ_OVERRUN_POSSIBLE = "cq-overrun-possible", Warning,
        "More completions are outstanding than the completion queue holds.",
        "ibv_create_cq(3); IBA vol. 1, 10.2.6",
        "Create the completion queue with room for all requests of all its queue pairs.";
    CQ_OVERRUN = "cq-overrun", Error,
        "A completion queue has overrun.",
        "ibv_create_cq(3), ibv_get_async_event(3); IBA vol. 1, 10.2.6",
        "Create the completion queue with room for all requests of all its queue pairs.";
    NEVER_SIGNALED = "never-signaled", Error,
        "The send queue is full of unsignaled requests, which no completion can reclaim.",
        "ibv_post_send(3); IBA vol. 1, 10.8.6",
        "Set IBV_SEND_SIGNALED at least once in max_send_wr requests.";
    RECEIVE_TOO_SHORT = "receive-too-short", Error,
        "A message is longer than the receive that was posted for it.",
        "IBA vol. 1, 11.6.2; ibv_poll_cq(3)",
        "Post receives of the largest message; a UD receive needs 40 bytes more.";
    RECEIVE_MISSING = "receive-missing", Error,
        "A request failed because the peer had posted no receive.",
        "IBA vol. 1, 9.7.5.2.8; ibv_modify_qp(3)",
        "Post receives before the peer sends, or set rnr_retry to 7 to wait for them.";
    TOO_MANY_SGE = "too-many-sge", Error,
        "A request has more buffers than the queue allows.",
        "ibv_post_send(3), ibv_post_recv(3), ibv_create_qp(3)",
        "Create the queue with a larger max_send_sge, max_recv_sge or max_sge.";
    INLINE_TOO_LONG = "inline-too-long", Error,
        "An inline request is longer than max_inline_data.",
        "ibv_post_send(3), ibv_create_qp(3)",
        "Post without IBV_SEND_INLINE, or create the queue pair with a larger max_inline_data.";
    OPCODE_NOT_FOR_TYPE = "opcode-not-for-type", Error,
        "The type of the queue pair does not support the opcode.",
        "ibv_post_send(3); IBA vol. 1, 9.4",
        "Use a queue pair of type RC, or another opcode.";
    POST_IN_WRONG_STATE = "post-in-wrong-state", Error,
        "The program posts to a queue pair whose state does not allow it.",
        "ibv_modify_qp(3); IBA vol. 1, 10.3.1",
        "Post sends in RTS only, and receives in INIT or later.";
    UD_MESSAGE_EXCEEDS_MTU = "ud-message-exceeds-mtu", Error,
        "A UD message is longer than the MTU of its port.",
        "IBA vol. 1, 9.8.3; ibv_post_send(3)",
        "Split the message: a datagram is one packet.";
    READ_LIMIT_ZERO = "read-limit-zero", Error,
        "A READ or atomic is posted to a queue pair whose max_rd_atomic is 0.",
        "ibv_modify_qp(3); IBA vol. 1, 9.4.4",
        "Set max_rd_atomic at the transition to RTS (initiator_depth in RDMA CM).";
    FENCE_MISSING = "fence-missing", Error,
        "A request reads a buffer that an outstanding READ or atomic of the same queue pair still writes.",
        "IBA vol. 1, 10.8.3.3; ibv_post_send(3)",
        "Poll the READ's completion first, or set IBV_SEND_FENCE.";
    RECEIVE_NO_GRH_ROOM = "receive-no-grh-room", Error,
        "A UD receive has no room for the 40 bytes of the GRH.",
        "ibv_post_recv(3); IBA vol. 1, 11.4.1.2",
        "Add 40 bytes to the receive buffer; the payload follows them.";
    SRQ_WITH_RECEIVE = "srq-with-receive", Error,
        "The program posts a receive to a queue pair that uses a shared receive queue.",
        "ibv_post_recv(3), ibv_post_srq_recv(3)",
        "Post to the shared receive queue.";
    AH_WRONG_PD = "ah-wrong-pd", Error,
        "A UD request names an address handle of another protection domain.",
        "IBA vol. 1, 10.2.3; ibv_create_ah(3)",
        "Create the address handle in the protection domain of the queue pair.";
}
