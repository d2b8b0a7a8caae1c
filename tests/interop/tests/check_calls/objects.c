/* Misuse of objects: their life, attributes of queue pairs, events. */

#include "common.h"

static void object_leaked(int is_wrong)
{
	struct ibv_mr *own = region(pd, memory, 4096, IBV_ACCESS_LOCAL_WRITE);
	if (is_wrong)
		exit(0);
	MUST(!ibv_dereg_mr(own));
}

static void destroy_busy(int is_wrong)
{
	create_both(IBV_QPT_RC);
	if (is_wrong) {
		MUST(ibv_destroy_cq(cq));
		return;
	}
	for (int i = 0; i < 2; i++)
		MUST(!ibv_destroy_qp(qps[i]));
	qps[0] = qps[1] = NULL;
	MUST(!ibv_destroy_cq(cq));
	cq = NULL;
}

static void destroyed_twice(int is_wrong)
{
	struct ibv_mr *own = region(pd, memory, 4096, IBV_ACCESS_LOCAL_WRITE);
	MUST(!ibv_dereg_mr(own));
	if (is_wrong)
		ibv_dereg_mr(own);
}

static void use_after_destroy(int is_wrong)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	create_both(IBV_QPT_RC);
	struct ibv_qp *qp = qps[0];
	qps[0] = NULL;
	if (!is_wrong)
		MUST(!ibv_query_qp(qp, &attr, IBV_QP_STATE, &init));
	MUST(!ibv_destroy_qp(qp));
	if (is_wrong)
		ibv_query_qp(qp, &attr, IBV_QP_STATE, &init);
}

static void wrong_transition(int is_wrong)
{
	create_both(IBV_QPT_RC);
	MUST(!to_init(qps[0]));
	if (!is_wrong)
		MUST(!to_rtr(qps[0], qps[1]->qp_num));
	MUST(is_wrong == !!to_rts(qps[0]));
}

static int initialize(int mask)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ACCESS };
	create_both(IBV_QPT_RC);
	return ibv_modify_qp(qps[0], &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS | mask);
}

static void attribute_missing(int is_wrong)
{
	MUST(is_wrong == !!initialize(is_wrong ? 0 : IBV_QP_PORT));
}

/* A queue pair gets its retries when it goes to RTS. */
static void attribute_extra(int is_wrong)
{
	MUST(is_wrong == !!initialize(IBV_QP_PORT | (is_wrong ? IBV_QP_RETRY_CNT : 0)));
}

static void connect_one(int is_wrong)
{
	create_both(IBV_QPT_RC);
	MUST(!to_init(qps[0]));
	MUST(!to_rtr(qps[0], qps[1]->qp_num) || is_wrong);
}

static void gid_index_empty(int is_wrong)
{
	if (is_wrong)
		way.sgid_index = 200;
	connect_one(is_wrong);
}

static void path_mtu_exceeds_port(int is_wrong)
{
	struct ibv_port_attr port;
	MUST(!ibv_query_port(context, 1, &port) && port.active_mtu < IBV_MTU_4096);
	way.mtu = is_wrong ? IBV_MTU_4096 : port.active_mtu;
	connect_one(is_wrong);
}

static void timeout_zero(int is_wrong)
{
	if (is_wrong)
		way.timeout = 0;
	connected(IBV_QPT_RC);
}

static void retry_zero(int is_wrong)
{
	if (is_wrong)
		way.retry_cnt = 0;
	connected(IBV_QPT_RC);
}

static void qp_cap_beyond_device(int is_wrong)
{
	struct ibv_device_attr device;
	MUST(!ibv_query_device(context, &device));
	struct ibv_qp_init_attr init = init_attr(IBV_QPT_RC);
	if (is_wrong)
		init.cap.max_send_wr = device.max_qp_wr + 1;
	qps[0] = ibv_create_qp(pd, &init);
	MUST(qps[0] || is_wrong);
}

static void await_event(void)
{
	struct ibv_cq *of;
	void *cookie;
	MUST(!ibv_get_cq_event(channel, &of, &cookie));
	MUST(of == cq);
}

/* A completion that came before the queue was armed raises no event. */
static void cq_not_drained(int is_wrong)
{
	connected(IBV_QPT_RC);
	MUST(!post(qps[0], IBV_WR_RDMA_WRITE, piece(0, 64), IBV_SEND_SIGNALED));
	usleep(100000);
	MUST(!ibv_req_notify_cq(cq, 0));
	if (is_wrong) {
		leave_soon();
	} else {
		struct ibv_wc wc;
		completed(1);
		MUST(!ibv_poll_cq(cq, 1, &wc));
		MUST(!post(qps[0], IBV_WR_RDMA_WRITE, piece(0, 64), IBV_SEND_SIGNALED));
	}
	await_event();
	ibv_ack_cq_events(cq, 1);
	completed(1);
}

static void cq_not_armed(int is_wrong)
{
	connected(IBV_QPT_RC);
	if (is_wrong)
		leave_soon();
	else
		MUST(!ibv_req_notify_cq(cq, 0));
	MUST(!post(qps[0], IBV_WR_RDMA_WRITE, piece(0, 64), IBV_SEND_SIGNALED));
	await_event();
	ibv_ack_cq_events(cq, 1);
	completed(1);
}

/* Destruction waits for acknowledgements. */
static void event_unacknowledged(int is_wrong)
{
	connected(IBV_QPT_RC);
	MUST(!ibv_req_notify_cq(cq, 0));
	MUST(!post(qps[0], IBV_WR_RDMA_WRITE, piece(0, 64), IBV_SEND_SIGNALED));
	await_event();
	completed(1);
	if (is_wrong)
		leave_soon();
	else
		ibv_ack_cq_events(cq, 1);
}

/* The queue's destruction waits until as many events are acknowledged as it raised, no more and no fewer. */
static void event_not_read(int is_wrong)
{
	connected(IBV_QPT_RC);
	MUST(!ibv_req_notify_cq(cq, 0));
	MUST(!post(qps[0], IBV_WR_RDMA_WRITE, piece(0, 64), IBV_SEND_SIGNALED));
	await_event();
	completed(1);
	ibv_ack_cq_events(cq, 1 + is_wrong);
	if (is_wrong)
		leave_soon();
}

int main(int argc, char **argv)
{
	static const struct misuse cases[] = {
		{ "object-leaked", object_leaked },
		{ "destroy-busy", destroy_busy },
		{ "destroyed-twice", destroyed_twice },
		{ "use-after-destroy", use_after_destroy },
		{ "wrong-transition", wrong_transition },
		{ "attribute-missing", attribute_missing },
		{ "attribute-extra", attribute_extra },
		{ "gid-index-empty", gid_index_empty },
		{ "path-mtu-exceeds-port", path_mtu_exceeds_port },
		{ "timeout-zero", timeout_zero },
		{ "retry-zero", retry_zero },
		{ "qp-cap-beyond-device", qp_cap_beyond_device },
		{ "cq-not-drained", cq_not_drained },
		{ "cq-not-armed", cq_not_armed },
		{ "event-unacknowledged", event_unacknowledged },
		{ "event-not-read", event_not_read },
	};
	return run_misuse(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
