/* Both ends of connections in one process: parameters, private data, rejects, and the events that destroying waits for.
 * Argument: an address of this machine. */

#include "must.h"

enum { ACK_AFTER_US = 200000, WAITED_MIN_MS = 150 };

static const char *local;

/* Two identifiers, each on its own channel; the request creates the passive one. */
struct ends {
	struct rdma_event_channel *active_channel, *passive_channel;
	struct rdma_cm_id *active, *passive, *listener;
};

static struct ibv_qp_init_attr small(void)
{
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC, .sq_sig_all = 1 };

	attr.cap = (struct ibv_qp_cap){ .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 };
	return attr;
}

static void make_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = small();

	MUST(rdma_create_qp(id, NULL, &attr) == 0);
	MUST(id->qp && id->qp->state == IBV_QPS_INIT && id->send_cq && id->recv_cq && id->send_cq_channel);
	MUST(attr.send_cq == id->send_cq && attr.recv_cq == id->recv_cq && id->pd == id->qp->pd);
	FAILS(rdma_create_qp(id, NULL, &attr), EINVAL);
}

static struct ends listening(void)
{
	struct ends e = { .active_channel = rdma_create_event_channel(),
			  .passive_channel = rdma_create_event_channel() };

	MUST(rdma_create_id(e.passive_channel, &e.listener, &e, RDMA_PS_TCP) == 0);
	MUST(rdma_bind_addr(e.listener, address(local, 0)) == 0 && rdma_listen(e.listener, 8) == 0);
	MUST(rdma_create_id(e.active_channel, &e.active, NULL, RDMA_PS_TCP) == 0);
	MUST(rdma_resolve_addr(e.active, NULL, address(local, ntohs(rdma_get_src_port(e.listener))), 2000) == 0);
	pass(e.active_channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	MUST(rdma_resolve_route(e.active, 2000) == 0);
	pass(e.active_channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	return e;
}

/* Returns the request, which stays unacknowledged. */
static struct rdma_cm_event *requested(struct ends *e, struct rdma_conn_param *param)
{
	struct rdma_cm_event *event;

	MUST(rdma_connect(e->active, param) == 0);
	event = expect(e->passive_channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	e->passive = event->id;
	MUST(event->listen_id == e->listener && e->passive != e->listener);
	MUST(e->passive->context == e->listener->context && e->passive->channel == e->passive_channel);
	MUST(e->passive->verbs != NULL && e->passive->route.num_paths == 1 && e->passive->event == NULL);
	MUST(rdma_get_dst_port(e->passive) == rdma_get_src_port(e->active));
	MUST(rdma_get_src_port(e->passive) == rdma_get_src_port(e->listener));
	return event;
}

static void finish(struct ends *e)
{
	if (e->passive) {
		if (e->passive->qp)
			rdma_destroy_qp(e->passive);
		MUST(rdma_destroy_id(e->passive) == 0);
	}
	if (e->active->qp)
		rdma_destroy_qp(e->active);
	MUST(rdma_destroy_id(e->active) == 0 && rdma_destroy_id(e->listener) == 0);
	rdma_destroy_event_channel(e->active_channel);
	rdma_destroy_event_channel(e->passive_channel);
}

static void exchange(struct rdma_cm_id *from, struct rdma_cm_id *to)
{
	static char out[64] = "a message", in[64];
	struct ibv_mr *out_mr = rdma_reg_msgs(from, out, sizeof(out)), *in_mr = rdma_reg_msgs(to, in, sizeof(in));
	struct ibv_wc wc;

	memset(in, 0, sizeof(in));
	MUST(out_mr && in_mr && rdma_post_recv(to, in, in, sizeof(in), in_mr) == 0);
	MUST(rdma_post_send(from, NULL, out, sizeof(out), out_mr, 0) == 0);
	MUST(rdma_get_send_comp(from, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	MUST(rdma_get_recv_comp(to, &wc) == 1 && wc.status == IBV_WC_SUCCESS && wc.byte_len == sizeof(in));
	MUST(!strcmp(in, out) && !rdma_dereg_mr(out_mr) && !rdma_dereg_mr(in_mr));
}

static void accepting(void)
{
	struct ends e = listening();
	struct rdma_conn_param ask = { .private_data = "please", .private_data_len = 7, .responder_resources = 3,
				       .initiator_depth = 2, .retry_count = 5, .rnr_retry_count = 6 };
	struct rdma_conn_param grant = { .private_data = "granted", .private_data_len = 8,
					 .responder_resources = RDMA_MAX_RESP_RES,
					 .initiator_depth = RDMA_MAX_INIT_DEPTH, .rnr_retry_count = 7 };
	struct rdma_conn_param wrong = ask;
	struct rdma_cm_event *event;
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	FAILS(rdma_connect(e.active, NULL), EINVAL);
	wrong.responder_resources = 254;
	FAILS(rdma_connect(e.active, &wrong), EINVAL);
	make_qp(e.active);
	event = requested(&e, &ask);
	MUST(event->param.conn.private_data_len >= 7 && !strcmp(event->param.conn.private_data, "please"));
	/* One end's initiator depth is the other's responder resources. */
	MUST(event->param.conn.responder_resources == 2 && event->param.conn.initiator_depth == 3);
	MUST(event->param.conn.qp_num == e.active->qp->qp_num && event->param.conn.rnr_retry_count == 6);
	FAILS(rdma_accept(e.passive, NULL), EINVAL);
	make_qp(e.passive);
	MUST(rdma_accept(e.passive, &grant) == 0 && e.passive->qp->state == IBV_QPS_RTS);
	MUST(rdma_ack_cm_event(event) == 0);
	event = expect(e.active_channel, RDMA_CM_EVENT_ESTABLISHED);
	MUST(event->id == e.active && !strcmp(event->param.conn.private_data, "granted"));
	MUST(event->param.conn.qp_num == e.passive->qp->qp_num && rdma_ack_cm_event(event) == 0);
	pass(e.passive_channel, RDMA_CM_EVENT_ESTABLISHED);
	MUST(ibv_query_qp(e.passive->qp, &attr, IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC, &init) == 0);
	MUST(attr.max_rd_atomic == 3 && attr.max_dest_rd_atomic == 2);
	MUST(ibv_query_qp(e.active->qp, &attr, IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC, &init) == 0);
	MUST(attr.max_rd_atomic == 2 && attr.max_dest_rd_atomic == 3);
	/* Each end learns its retry counts: the active side from the reply. */
	MUST(attr.retry_cnt == 5 && attr.rnr_retry == 7);
	exchange(e.active, e.passive);
	exchange(e.passive, e.active);

	FAILS(rdma_establish(e.active), EINVAL);
	MUST(rdma_disconnect(e.active) == 0 && e.active->qp->state == IBV_QPS_ERR);
	pass(e.passive_channel, RDMA_CM_EVENT_DISCONNECTED);
	MUST(rdma_disconnect(e.passive) == 0);
	pass(e.active_channel, RDMA_CM_EVENT_DISCONNECTED);
	finish(&e);
}

static void defaults(void)
{
	struct ends e = listening();
	struct ibv_device_attr device;
	struct rdma_cm_event *event;

	MUST(ibv_query_device(e.active->verbs, &device) == 0);
	make_qp(e.active);
	event = requested(&e, NULL);
	MUST(event->param.conn.responder_resources == device.max_qp_init_rd_atom);
	MUST(event->param.conn.initiator_depth == device.max_qp_rd_atom);
	MUST(event->param.conn.rnr_retry_count == 7 && rdma_ack_cm_event(event) == 0);
	make_qp(e.passive);
	MUST(rdma_accept(e.passive, NULL) == 0);
	pass(e.active_channel, RDMA_CM_EVENT_ESTABLISHED);
	pass(e.passive_channel, RDMA_CM_EVENT_ESTABLISHED);
	exchange(e.active, e.passive);
	finish(&e);
}

static void rejecting(void)
{
	struct ends e = listening();
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	make_qp(e.active);
	event = requested(&e, NULL);
	MUST(rdma_reject(e.passive, "no room", 8) == 0 && rdma_ack_cm_event(event) == 0);
	event = expect(e.active_channel, RDMA_CM_EVENT_REJECTED);
	MUST(event->status == 28 && event->param.conn.private_data_len >= 8);
	MUST(!strcmp(event->param.conn.private_data, "no room") && e.active->qp->state == IBV_QPS_ERR);
	MUST(rdma_ack_cm_event(event) == 0);
	finish(&e);

	/* No listener: invalid service id. */
	MUST(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) == 0);
	MUST(rdma_resolve_addr(id, NULL, address(local, 9), 2000) == 0 && rdma_resolve_route(id, 2000) == 0);
	make_qp(id);
	FAILS(rdma_connect(id, NULL), ECONNREFUSED);
	MUST(id->event->event == RDMA_CM_EVENT_REJECTED && id->event->status == 8);
	rdma_destroy_ep(id);

	/* Destroying an identifier with an unanswered request rejects it. */
	e = listening();
	make_qp(e.active);
	MUST(rdma_ack_cm_event(requested(&e, NULL)) == 0);
	MUST(rdma_destroy_id(e.passive) == 0);
	e.passive = NULL;
	pass(e.active_channel, RDMA_CM_EVENT_REJECTED);
	finish(&e);

	/* So does destroying a listener with unfetched requests. */
	e = listening();
	make_qp(e.active);
	MUST(rdma_connect(e.active, NULL) == 0 && readable(e.passive_channel->fd, 5000));
	MUST(rdma_destroy_id(e.listener) == 0);
	pass(e.active_channel, RDMA_CM_EVENT_REJECTED);
	MUST(!readable(e.passive_channel->fd, 50));
	MUST(rdma_create_id(e.passive_channel, &e.listener, NULL, RDMA_PS_TCP) == 0);
	finish(&e);
}

/* A queue pair that the program manages itself. */
static void own_queue_pairs(void)
{
	struct ends e = listening();
	struct rdma_conn_param param = { .qp_num = 0x1234, .responder_resources = 1, .initiator_depth = 1 };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT };
	struct rdma_cm_event *event;
	int mask;

	event = requested(&e, &param);
	MUST(event->param.conn.qp_num == 0x1234 && rdma_ack_cm_event(event) == 0);
	MUST(rdma_init_qp_attr(e.passive, &attr, &mask) == 0 && attr.qp_state == IBV_QPS_INIT);
	MUST(mask == (IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_PORT) && attr.port_num == 1);
	attr.qp_state = IBV_QPS_RTR;
	MUST(rdma_init_qp_attr(e.passive, &attr, &mask) == 0 && attr.dest_qp_num == 0x1234);
	MUST(attr.ah_attr.is_global && attr.ah_attr.port_num == 1 && mask & IBV_QP_AV);
	param.qp_num = 0x4321;
	MUST(rdma_accept(e.passive, &param) == 0);
	event = expect(e.active_channel, RDMA_CM_EVENT_CONNECT_RESPONSE);
	MUST(event->param.conn.qp_num == 0x4321 && rdma_ack_cm_event(event) == 0);
	attr.qp_state = IBV_QPS_RTS;
	MUST(rdma_init_qp_attr(e.active, &attr, &mask) == 0 && mask & IBV_QP_SQ_PSN);
	MUST(!readable(e.passive_channel->fd, 50));
	MUST(rdma_establish(e.active) == 0);
	pass(e.passive_channel, RDMA_CM_EVENT_ESTABLISHED);
	MUST(rdma_disconnect(e.passive) == 0);
	pass(e.active_channel, RDMA_CM_EVENT_DISCONNECTED);
	finish(&e);
}

static void *acknowledge_later(void *event)
{
	usleep(ACK_AFTER_US);
	rdma_ack_cm_event(event);
	return NULL;
}

/* Destroying waits until every event is acknowledged. */
static void waiting(void)
{
	struct ends e = listening();
	struct rdma_cm_event *event;
	pthread_t thread;
	long started;

	make_qp(e.active);
	event = requested(&e, NULL);
	make_qp(e.passive);
	MUST(rdma_accept(e.passive, NULL) == 0 && rdma_ack_cm_event(event) == 0);
	event = expect(e.active_channel, RDMA_CM_EVENT_ESTABLISHED);
	rdma_destroy_qp(e.active);
	MUST(pthread_create(&thread, NULL, acknowledge_later, event) == 0);
	started = now_ms();
	MUST(rdma_destroy_id(e.active) == 0 && now_ms() - started >= WAITED_MIN_MS);
	MUST(pthread_join(thread, NULL) == 0);
	MUST(rdma_create_id(e.active_channel, &e.active, NULL, RDMA_PS_TCP) == 0);
	pass(e.passive_channel, RDMA_CM_EVENT_ESTABLISHED);
	pass(e.passive_channel, RDMA_CM_EVENT_DISCONNECTED);
	finish(&e);
}

static int sync_port;

static void *serve_sync(void *unused)
{
	struct rdma_addrinfo hints = { .ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP }, *res;
	struct ibv_qp_init_attr attr = small();
	struct rdma_cm_id *listener, *id;
	char in[16];
	struct ibv_mr *mr;
	struct ibv_wc wc;

	(void)unused;
	MUST(rdma_getaddrinfo(local, NULL, &hints, &res) == 0);
	MUST(rdma_create_ep(&listener, res, NULL, &attr) == 0 && rdma_listen(listener, 0) == 0);
	__atomic_store_n(&sync_port, ntohs(rdma_get_src_port(listener)), __ATOMIC_RELEASE);
	MUST(rdma_get_request(listener, &id) == 0 && id->qp && id->event && id->channel != listener->channel);
	mr = rdma_reg_msgs(id, in, sizeof(in));
	MUST(mr && rdma_post_recv(id, NULL, in, sizeof(in), mr) == 0 && rdma_accept(id, NULL) == 0);
	MUST(id->event->event == RDMA_CM_EVENT_ESTABLISHED);
	MUST(rdma_get_recv_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS && !strcmp(in, "over"));
	rdma_dereg_mr(mr);
	rdma_destroy_ep(id);
	rdma_destroy_ep(listener);
	rdma_freeaddrinfo(res);
	return NULL;
}

/* Endpoints: no channels, every call is complete when it returns. */
static void endpoints(void)
{
	struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP }, *res;
	struct ibv_qp_init_attr attr = small();
	struct rdma_cm_id *id;
	char port[8], out[16] = "over";
	struct ibv_mr *mr;
	struct ibv_wc wc;
	pthread_t server;

	MUST(pthread_create(&server, NULL, serve_sync, NULL) == 0);
	while (!__atomic_load_n(&sync_port, __ATOMIC_ACQUIRE))
		usleep(1000);
	snprintf(port, sizeof(port), "%d", sync_port);
	MUST(rdma_getaddrinfo(local, port, &hints, &res) == 0);
	MUST(rdma_create_ep(&id, res, NULL, &attr) == 0 && id->qp && id->route.num_paths == 1);
	MUST(rdma_connect(id, NULL) == 0 && id->event->event == RDMA_CM_EVENT_ESTABLISHED);
	mr = rdma_reg_msgs(id, out, sizeof(out));
	MUST(mr && rdma_post_send(id, NULL, out, sizeof(out), mr, 0) == 0);
	MUST(rdma_get_send_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	MUST(pthread_join(server, NULL) == 0);
	rdma_dereg_mr(mr);
	rdma_destroy_ep(id);
	rdma_freeaddrinfo(res);
}

/* A shared receive queue of the listener serves the connections. */
static void shared_receives(void)
{
	struct ends e = listening();
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = 8, .max_sge = 1 } };
	struct rdma_cm_event *event;

	make_qp(e.active);
	event = requested(&e, NULL);
	MUST(event->param.conn.srq == 0);
	MUST(rdma_create_srq(e.passive, NULL, &srq) == 0 && e.passive->srq);
	make_qp(e.passive);
	MUST(e.passive->qp->srq == e.passive->srq && rdma_accept(e.passive, NULL) == 0 && rdma_ack_cm_event(event) == 0);
	event = expect(e.active_channel, RDMA_CM_EVENT_ESTABLISHED);
	MUST(event->param.conn.srq == 1 && rdma_ack_cm_event(event) == 0);
	pass(e.passive_channel, RDMA_CM_EVENT_ESTABLISHED);
	exchange(e.active, e.passive);
	rdma_destroy_qp(e.passive);
	rdma_destroy_srq(e.passive);
	MUST(!e.passive->srq && !e.passive->recv_cq);
	finish(&e);
}

int main(int argc, char **argv)
{
	MUST(argc >= 2);
	local = argv[1];
	accepting();
	defaults();
	rejecting();
	own_queue_pairs();
	waiting();
	endpoints();
	shared_receives();
	puts("all as it must be");
	return 0;
}
