/* Misuse of work queues: more requests than fit, and requests that the queue pair cannot take. */

#include "common.h"
#include <poll.h>

/* A place of the send queue is free when the program has polled the completion; an adapter may be more generous. */
static void send_queue_full(int is_wrong)
{
	connected(IBV_QPT_RC);
	for (uint32_t i = 0; i < caps[0].max_send_wr; i++)
		MUST(!post(qps[0], IBV_WR_RDMA_WRITE, piece(0, 64), IBV_SEND_SIGNALED));
	if (!is_wrong)
		completed(1);
	int is_refused = !!post(qps[0], IBV_WR_RDMA_WRITE, piece(0, 64), IBV_SEND_SIGNALED);
	MUST(!is_refused || is_wrong);
	completed(caps[0].max_send_wr + (is_wrong && !is_refused));
}

static void receive_queue_full(int is_wrong)
{
	connected(IBV_QPT_RC);
	for (uint32_t i = 0; i < caps[0].max_recv_wr; i++)
		MUST(!receive(qps[0], piece(64 * i, 64)));
	if (is_wrong)
		MUST(receive(qps[0], piece(64 * caps[0].max_recv_wr, 64)));
}

static struct ibv_srq *shared_queue(struct ibv_srq_init_attr *init)
{
	struct ibv_srq *srq = ibv_create_srq(pd, init);
	MUST(srq);
	return srq;
}

static void srq_full(int is_wrong)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 8, .max_sge = 1 } };
	struct ibv_srq *srq = shared_queue(&init);
	int failed = 0;
	for (uint32_t i = 0; i < init.attr.max_wr + is_wrong; i++) {
		struct ibv_sge sge = piece(64 * i, 64);
		struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;
		failed = ibv_post_srq_recv(srq, &wr, &bad);
		MUST(!failed || i == init.attr.max_wr);
	}
	MUST(!!failed == is_wrong);
	MUST(!ibv_destroy_srq(srq));
}

/* Takes asynchronous events until none comes for a while. */
static void take_async_events(void)
{
	struct pollfd fd = { .fd = context->async_fd, .events = POLLIN };
	struct ibv_async_event event;
	while (poll(&fd, 1, 300) == 1) {
		MUST(!ibv_get_async_event(context, &event));
		ibv_ack_async_event(&event);
	}
}

/* Posts as many requests as a small completion queue holds, and this many more. */
static void post_for_small_cq(int more)
{
	struct ibv_cq *small = ibv_create_cq(context, 4, NULL, NULL, 0);
	MUST(small);
	struct ibv_qp_init_attr init = init_attr(IBV_QPT_RC);
	init.send_cq = small;
	init.cap.max_send_wr = small->cqe + 8;
	for (int i = 0; i < 2; i++)
		qps[i] = create(&init);
	connect_both();
	for (int i = 0; i < small->cqe + more; i++)
		MUST(!post(qps[0], IBV_WR_RDMA_WRITE, piece(0, 64), IBV_SEND_SIGNALED) || more > 0);
	take_async_events();
	for (int i = 0; i < 2; i++)
		MUST(!ibv_destroy_qp(qps[i]));
	qps[0] = qps[1] = NULL;
	MUST(!ibv_destroy_cq(small));
}

static void cq_overrun(int is_wrong)
{
	post_for_small_cq(is_wrong);
}

/* Without a completion no place of the send queue becomes free again. */
static void never_signaled(int is_wrong)
{
	connected(IBV_QPT_RC);
	for (uint32_t i = 0; i < caps[0].max_send_wr; i++) {
		int is_last = i + 1 == caps[0].max_send_wr;
		MUST(!post(qps[0], IBV_WR_RDMA_WRITE, piece(0, 64), is_last && !is_wrong ? IBV_SEND_SIGNALED : 0));
	}
	if (!is_wrong)
		completed(1);
	int is_refused = !!post(qps[0], IBV_WR_RDMA_WRITE, piece(0, 64), IBV_SEND_SIGNALED);
	MUST(!is_refused || is_wrong);
	completed(!is_refused);
}

static void receive_too_short(int is_wrong)
{
	connected(IBV_QPT_RC);
	MUST(!receive(qps[1], piece(REMOTE, is_wrong ? 16 : 64)));
	MUST(!post(qps[0], IBV_WR_SEND, piece(0, 64), IBV_SEND_SIGNALED));
	for (int i = 0; i < 2; i++)
		MUST((completion().status != IBV_WC_SUCCESS) == is_wrong);
}

static void receive_missing(int is_wrong)
{
	way.rnr_retry = 0;
	connected(IBV_QPT_RC);
	if (!is_wrong)
		MUST(!receive(qps[1], piece(REMOTE, 64)));
	MUST(!post(qps[0], IBV_WR_SEND, piece(0, 64), IBV_SEND_SIGNALED));
	if (is_wrong)
		MUST(completion().status == IBV_WC_RNR_RETRY_EXC_ERR);
	else
		completed(2);
}

static void too_many_sge(int is_wrong)
{
	struct ibv_sge list[64];
	connected(IBV_QPT_RC);
	MUST(caps[0].max_send_sge < 64);
	for (int i = 0; i < 64; i++)
		list[i] = piece(64 * i, 64);
	struct ibv_send_wr wr = request(IBV_WR_RDMA_WRITE, list, IBV_SEND_SIGNALED);
	wr.num_sge = caps[0].max_send_sge + is_wrong;
	MUST(is_wrong == !!send_request(qps[0], &wr));
	completed(!is_wrong);
}

static void inline_too_long(int is_wrong)
{
	connected(IBV_QPT_RC);
	uint32_t length = caps[0].max_inline_data + is_wrong;
	MUST(is_wrong == !!post(qps[0], IBV_WR_RDMA_WRITE, piece(0, length), IBV_SEND_SIGNALED | IBV_SEND_INLINE));
	completed(!is_wrong);
}

/* Unreliable connections have no READ. */
static void opcode_not_for_type(int is_wrong)
{
	connected(IBV_QPT_UC);
	int failed = post(qps[0], is_wrong ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, piece(0, 64), IBV_SEND_SIGNALED);
	MUST(!failed || is_wrong);
	if (!failed)
		MUST(completion().status == IBV_WC_SUCCESS || is_wrong);
}

static void post_in_wrong_state(int is_wrong)
{
	create_both(IBV_QPT_RC);
	for (int i = 0; i < 2; i++)
		MUST(!to_init(qps[i]) && !to_rtr(qps[i], qps[!i]->qp_num));
	if (!is_wrong)
		MUST(!to_rts(qps[0]));
	MUST(is_wrong == !!post(qps[0], IBV_WR_RDMA_WRITE, piece(0, 64), IBV_SEND_SIGNALED));
	completed(!is_wrong);
}

/* Queue pairs take receives from INIT on. */
static void receive_in_wrong_state(int is_wrong)
{
	create_both(IBV_QPT_RC);
	if (!is_wrong)
		MUST(!to_init(qps[0]));
	MUST(is_wrong == !!receive(qps[0], piece(0, 64)));
}

static struct ibv_ah *address(struct ibv_pd *of)
{
	struct ibv_ah_attr attr = {
		.is_global = 1, .port_num = 1, .grh = { .dgid = gid, .sgid_index = gid_index, .hop_limit = 64 }
	};
	struct ibv_ah *ah = ibv_create_ah(of, &attr);
	MUST(ah);
	return ah;
}

static int datagram(struct ibv_ah *ah, uint32_t length)
{
	struct ibv_sge sge = piece(0, length);
	struct ibv_send_wr wr = request(IBV_WR_SEND, &sge, IBV_SEND_SIGNALED);
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = qps[1]->qp_num;
	wr.wr.ud.remote_qkey = QKEY;
	return send_request(qps[0], &wr);
}

static void ud_message_exceeds_mtu(int is_wrong)
{
	struct ibv_ah *ah = address(pd);
	connected(IBV_QPT_UD);
	struct ibv_port_attr port;
	MUST(!ibv_query_port(context, 1, &port));
	uint32_t mtu = 128u << port.active_mtu;
	if (!datagram(ah, mtu + is_wrong))
		MUST(completion().status == IBV_WC_SUCCESS || is_wrong);
	MUST(!ibv_destroy_ah(ah));
}

static void ah_wrong_pd(int is_wrong)
{
	struct ibv_pd *other = ibv_alloc_pd(context);
	MUST(other);
	struct ibv_ah *ah = address(is_wrong ? other : pd);
	connected(IBV_QPT_UD);
	if (!datagram(ah, 64))
		MUST(completion().status == IBV_WC_SUCCESS || is_wrong);
	MUST(!ibv_destroy_ah(ah) && !ibv_dealloc_pd(other));
}

/* An address handle belongs to the request until the completion. */
static void ah_in_use(int is_wrong)
{
	struct ibv_ah *ah = address(pd);
	connected(IBV_QPT_UD);
	MUST(!datagram(ah, 64));
	if (is_wrong)
		MUST(!ibv_destroy_ah(ah));
	completion();
	if (!is_wrong)
		MUST(!ibv_destroy_ah(ah));
}

static void read_limit_zero(int is_wrong)
{
	way.max_rd_atomic = !is_wrong;
	connected(IBV_QPT_RC);
	if (!post(qps[0], IBV_WR_RDMA_READ, piece(0, 64), IBV_SEND_SIGNALED) && !is_wrong)
		completed(1);
}

/* The WRITE sends what the READ before it has perhaps not brought yet. */
static void fence_missing(int is_wrong)
{
	connected(IBV_QPT_RC);
	MUST(!post(qps[0], IBV_WR_RDMA_READ, piece(0, 4096), IBV_SEND_SIGNALED));
	MUST(!post(qps[0], IBV_WR_RDMA_WRITE, piece(1024, 64), IBV_SEND_SIGNALED | (is_wrong ? 0 : IBV_SEND_FENCE)));
	completed(2);
}

static void srq_with_receive(int is_wrong)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 8, .max_sge = 1 } };
	struct ibv_srq *srq = shared_queue(&init);
	struct ibv_qp_init_attr of_qp = init_attr(IBV_QPT_RC);
	of_qp.srq = is_wrong ? srq : NULL;
	qps[0] = create(&of_qp);
	MUST(!to_init(qps[0]));
	MUST(!receive(qps[0], piece(0, 64)) || is_wrong);
	MUST(!ibv_destroy_qp(qps[0]));
	qps[0] = NULL;
	MUST(!ibv_destroy_srq(srq));
}

int main(int argc, char **argv)
{
	static const struct misuse cases[] = {
		{ "send-queue-full", send_queue_full },
		{ "receive-queue-full", receive_queue_full },
		{ "srq-full", srq_full },
		{ "cq-overrun", cq_overrun },
		{ "cq-overrun-possible", cq_overrun },
		{ "never-signaled", never_signaled },
		{ "receive-too-short", receive_too_short },
		{ "receive-missing", receive_missing },
		{ "too-many-sge", too_many_sge },
		{ "inline-too-long", inline_too_long },
		{ "opcode-not-for-type", opcode_not_for_type },
		{ "post-in-wrong-state", post_in_wrong_state },
		{ "post-in-wrong-state/receive", receive_in_wrong_state },
		{ "ud-message-exceeds-mtu", ud_message_exceeds_mtu },
		{ "ah-wrong-pd", ah_wrong_pd },
		{ "ah-in-use", ah_in_use },
		{ "read-limit-zero", read_limit_zero },
		{ "fence-missing", fence_missing },
		{ "srq-with-receive", srq_with_receive },
	};
	return run_misuse(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
