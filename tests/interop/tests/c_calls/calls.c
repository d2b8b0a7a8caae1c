/* Details of verbs that only C programs see: pollable descriptors, unacknowledged events, structures whose size the
 * caller knows better than the library. Arguments: device, GID index. */

#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Exits with the line number and the failed condition. */
#define MUST(condition)                                                                          \
	do {                                                                                     \
		if (!(condition)) {                                                              \
			printf("line %d: not so: %s (errno %d)\n", __LINE__, #condition, errno); \
			exit(1);                                                                 \
		}                                                                                \
	} while (0)

/* Delay of the other thread's acknowledgement, and the minimum time that a destroyer must have waited. */
enum { ACK_AFTER_US = 200000, WAITED_MIN_MS = 150 };

static struct ibv_context *context;
static struct ibv_pd *pd;
static int gid_index;
static char buffer[8192] __attribute__((aligned(4096)));
static struct ibv_mr *mr;

static int readable(int fd, int within_ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	return poll(&p, 1, within_ms) == 1;
}

static long now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void set_nonblocking(int fd)
{
	MUST(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) == 0);
}

/* Connects a queue pair to itself. */
static void connect_to_itself(struct ibv_qp *qp)
{
	union ibv_gid gid;
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1 };

	MUST(ibv_query_gid(context, 1, gid_index, &gid) == 0);
	MUST(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0);
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR,
				  .path_mtu = IBV_MTU_1024,
				  .dest_qp_num = qp->qp_num,
				  .max_dest_rd_atomic = 1,
				  .min_rnr_timer = 12,
				  .ah_attr = { .is_global = 1,
					       .port_num = 1,
					       .grh = { .dgid = gid, .sgid_index = gid_index, .hop_limit = 4 } } };
	MUST(ibv_modify_qp(qp, &a,
			   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0);
	a = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1
	};
	MUST(ibv_modify_qp(qp, &a,
			   IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				   IBV_QP_MAX_QP_RD_ATOMIC) == 0);
	MUST(qp->state == IBV_QPS_RTS);
}

static struct ibv_qp *make_qp(struct ibv_cq *cq, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.srq = srq,
		.cap = { .max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 2, .max_recv_sge = 2 },
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);

	MUST(qp && init.cap.max_send_wr >= 8 && init.cap.max_send_sge >= 2);
	MUST(ibv_qp_to_qp_ex(qp) == NULL);
	connect_to_itself(qp);
	return qp;
}

static struct ibv_sge sge(void)
{
	return (struct ibv_sge){ .addr = (uintptr_t)buffer, .length = 8, .lkey = mr->lkey };
}

static int post_send(struct ibv_qp *qp)
{
	struct ibv_sge s = sge();
	struct ibv_send_wr *bad, wr = {
		.wr_id = 2, .sg_list = &s, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED
	};
	return ibv_post_send(qp, &wr, &bad);
}

static struct ibv_cq *late_cq;
static void *acknowledge_completion(void *unused)
{
	usleep(ACK_AFTER_US);
	ibv_ack_cq_events(late_cq, 1);
	return unused;
}

static struct ibv_async_event late_event;
static void *acknowledge_event(void *unused)
{
	usleep(ACK_AFTER_US);
	ibv_ack_async_event(&late_event);
	return unused;
}

/* Destroyers wait for acknowledgements; descriptors become readable with an event and fail with EAGAIN without one. */
static void events(void)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
	struct ibv_cq *cq = ibv_create_cq(context, 64, &late_cq, channel, 0), *from;
	struct ibv_srq_init_attr srq_init = { .attr = { .max_wr = 16, .max_sge = 2 } };
	struct ibv_srq *srq = ibv_create_srq(pd, &srq_init);
	struct ibv_srq_attr limit = { .srq_limit = 3 };
	struct ibv_sge s = sge(), three[3] = { s, s, s };
	struct ibv_recv_wr *bad, receive = { .wr_id = 1, .sg_list = &s, .num_sge = 1 };
	struct ibv_async_event event;
	struct ibv_wc wc[4];
	struct ibv_qp *qp;
	pthread_t thread;
	void *cq_context;
	long before;
	int got;

	MUST(channel && cq && srq && channel->refcnt == 1);
	set_nonblocking(channel->fd);
	set_nonblocking(context->async_fd);
	MUST(ibv_get_cq_event(channel, &from, &cq_context) == -1 && errno == EAGAIN);
	MUST(ibv_get_async_event(context, &event) == -1 && errno == EAGAIN);
	MUST(ibv_destroy_comp_channel(channel) == EBUSY);

	qp = make_qp(cq, srq);
	MUST(ibv_dealloc_pd(pd) == EBUSY);
	MUST(ibv_destroy_cq(cq) == EBUSY);
	MUST(ibv_destroy_srq(srq) == EBUSY);

	for (int i = 0; i < 3; i++)
		MUST(ibv_post_srq_recv(srq, &receive, &bad) == 0);
	receive.sg_list = three;
	receive.num_sge = 3;
	MUST(ibv_post_srq_recv(srq, &receive, &bad) == EINVAL && bad == &receive);
	MUST(ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT) == 0);
	MUST(ibv_req_notify_cq(cq, 0) == 0);
	MUST(post_send(qp) == 0);

	MUST(readable(channel->fd, 2000));
	MUST(ibv_get_cq_event(channel, &from, &cq_context) == 0 && from == cq && cq_context == &late_cq);
	MUST(!readable(channel->fd, 0));
	MUST(readable(context->async_fd, 2000));
	MUST(ibv_get_async_event(context, &late_event) == 0);
	MUST(late_event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED && late_event.element.srq == srq);
	for (got = 0, before = now_ms(); got < 2 && now_ms() < before + 2000;)
		got += ibv_poll_cq(cq, 4 - got, wc + got);
	MUST(got == 2 && wc[0].status == IBV_WC_SUCCESS && wc[1].status == IBV_WC_SUCCESS);

	/* A completion between the last poll and the arming is not missed, as on adapters. */
	MUST(post_send(qp) == 0);
	usleep(50000);
	MUST(ibv_req_notify_cq(cq, 0) == 0);
	MUST(readable(channel->fd, 2000));
	MUST(ibv_get_cq_event(channel, &from, &cq_context) == 0 && from == cq);
	ibv_ack_cq_events(cq, 1);
	for (got = 0, before = now_ms(); got < 2 && now_ms() < before + 2000;)
		got += ibv_poll_cq(cq, 4 - got, wc + got);
	MUST(got == 2 && wc[0].status == IBV_WC_SUCCESS && wc[1].status == IBV_WC_SUCCESS);

	MUST(ibv_destroy_qp(qp) == 0);
	before = now_ms();
	MUST(pthread_create(&thread, NULL, acknowledge_event, NULL) == 0);
	MUST(ibv_destroy_srq(srq) == 0);
	MUST(now_ms() >= before + WAITED_MIN_MS);
	pthread_join(thread, NULL);
	late_cq = cq;
	before = now_ms();
	MUST(pthread_create(&thread, NULL, acknowledge_completion, NULL) == 0);
	MUST(ibv_destroy_cq(cq) == 0);
	MUST(now_ms() >= before + WAITED_MIN_MS);
	pthread_join(thread, NULL);

	/* An unread event goes with its queue. */
	cq = ibv_create_cq(context, 64, NULL, channel, 0);
	qp = make_qp(cq, NULL);
	receive.sg_list = &s;
	receive.num_sge = 1;
	MUST(ibv_post_recv(qp, &receive, &bad) == 0);
	MUST(ibv_req_notify_cq(cq, 0) == 0);
	MUST(post_send(qp) == 0);
	MUST(readable(channel->fd, 2000));
	MUST(ibv_destroy_qp(qp) == 0);
	MUST(ibv_destroy_cq(cq) == 0);
	MUST(!readable(channel->fd, 0));
	MUST(channel->refcnt == 0);
	MUST(ibv_destroy_comp_channel(channel) == 0);
}

/* A list is posted up to the faulty request. */
static void lists(void)
{
	struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	struct ibv_qp *qp = make_qp(cq, NULL);
	struct ibv_sge s = sge();
	struct ibv_send_wr *bad, wrong = { .opcode = IBV_WR_SEND, .sg_list = &s, .num_sge = -1 };
	struct ibv_send_wr good = { .opcode = IBV_WR_SEND, .sg_list = &s, .num_sge = 1, .next = &wrong };
	struct ibv_recv_wr *bad_receive, receive = { .sg_list = &s };

	MUST(ibv_post_send(qp, &good, &bad) == EINVAL && bad == &wrong);
	wrong.num_sge = 3;
	MUST(ibv_post_send(qp, &good, &bad) == EINVAL && bad == &wrong);
	/* No list is that long: the library does not read to its end. */
	wrong.num_sge = INT_MAX;
	receive.num_sge = INT_MAX;
	MUST(ibv_post_send(qp, &good, &bad) == EINVAL && bad == &wrong);
	MUST(ibv_post_recv(qp, &receive, &bad_receive) == EINVAL && bad_receive == &receive);
	MUST(ibv_destroy_qp(qp) == 0 && ibv_destroy_cq(cq) == 0);
}

/* A builder posts everything or nothing. */
static void builders(void)
{
	struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	struct ibv_qp_init_attr_ex init = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = pd,
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE,
	};
	struct ibv_qp_ex *qp;
	struct ibv_wc wc;

	init.send_ops_flags |= IBV_QP_EX_WITH_TSO;
	MUST(ibv_create_qp_ex(context, &init) == NULL && errno == EOPNOTSUPP);
	init.send_ops_flags &= ~IBV_QP_EX_WITH_TSO;
	MUST((qp = ibv_qp_to_qp_ex(ibv_create_qp_ex(context, &init))) != NULL);
	connect_to_itself(&qp->qp_base);

	ibv_wr_start(qp);
	for (int i = 0; i < 5; i++) {
		qp->wr_id = i;
		qp->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_rdma_write(qp, mr->rkey, (uintptr_t)buffer);
		ibv_wr_set_sge(qp, mr->lkey, (uintptr_t)buffer, 8);
	}
	MUST(ibv_wr_complete(qp) == ENOMEM);
	usleep(10000);
	MUST(ibv_poll_cq(cq, 1, &wc) == 0);

	ibv_wr_start(qp);
	ibv_wr_set_sge(qp, mr->lkey, (uintptr_t)buffer, 8);
	MUST(ibv_wr_complete(qp) == EINVAL);
	ibv_wr_start(qp);
	ibv_wr_abort(qp);
	ibv_wr_start(qp);
	MUST(ibv_wr_complete(qp) == 0);
	MUST(ibv_destroy_qp(&qp->qp_base) == 0 && ibv_destroy_cq(cq) == 0);
}

/* Impossible requests, and their errors. */
static void refusals(void)
{
	struct ibv_cq_init_attr_ex cvlan = { .cqe = 16, .wc_flags = IBV_WC_EX_WITH_CVLAN };
	struct ibv_qp_init_attr raw = { .qp_type = IBV_QPT_RAW_PACKET };
	unsigned char port[64];
	union ibv_gid gid;
	__be16 pkey;

	MUST(ibv_reg_mr(pd, (void *)4096, 4096, IBV_ACCESS_LOCAL_WRITE) == NULL && errno == EFAULT);
	MUST(ibv_reg_mr(pd, "constant", 8, IBV_ACCESS_LOCAL_WRITE) == NULL && errno == EFAULT);
	MUST(ibv_reg_mr(pd, buffer, 8, IBV_ACCESS_REMOTE_WRITE) == NULL && errno == EINVAL);
	MUST(ibv_create_cq_ex(context, &cvlan) == NULL && errno == EOPNOTSUPP);
	MUST(ibv_create_cq(context, 0, NULL, NULL, 0) == NULL && errno == EINVAL);
	MUST(ibv_create_cq(context, -1, NULL, NULL, 0) == NULL && errno == EINVAL);
	MUST(ibv_create_cq(context, 16, NULL, NULL, context->num_comp_vectors) == NULL && errno == EINVAL);
	MUST(ibv_create_qp(pd, &raw) == NULL && errno == EOPNOTSUPP);
	MUST(ibv_create_flow(&(struct ibv_qp){ .context = context }, NULL) == NULL);
	MUST(errno == EOPNOTSUPP);
	MUST(ibv_query_gid(context, 1, 100000, &gid) == -1 && errno == EINVAL);
	MUST(ibv_query_gid(context, 2, 0, &gid) == -1 && errno == EINVAL);
	MUST(ibv_query_gid(context, 1, 200, &gid) == 0 && gid.global.interface_id == 0);
	MUST(ibv_query_pkey(context, 1, 0, &pkey) == 0 && pkey == 0xffff);
	MUST(ibv_query_pkey(context, 1, 1, &pkey) == -1 && errno == EINVAL);
	MUST(ibv_get_pkey_index(context, 1, pkey) == 0);

	/* The exported call writes only as much as its oldest callers have room for. */
	memset(port, 0xaa, sizeof port);
	MUST((ibv_query_port)(context, 1, (struct _compat_ibv_port_attr *)port) == 0);
	for (size_t i = 48; i < sizeof port; i++)
		MUST(port[i] == 0xaa);
}

int main(int argc, char **argv)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	MUST(argc == 3 && list);
	for (int i = 0; list[i]; i++)
		if (strcmp(ibv_get_device_name(list[i]), argv[1]) == 0)
			context = ibv_open_device(list[i]);
	ibv_free_device_list(list);
	gid_index = atoi(argv[2]);
	MUST(context && (pd = ibv_alloc_pd(context)));
	mr = ibv_reg_mr(pd, buffer, sizeof buffer, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	MUST(mr && ibv_dealloc_pd(pd) == EBUSY);

	events();
	lists();
	builders();
	refusals();

	MUST(ibv_dereg_mr(mr) == 0);
	MUST(ibv_dealloc_pd(pd) == 0);
	MUST(ibv_close_device(context) == 0);
	puts("all as it must be");
	return 0;
}
