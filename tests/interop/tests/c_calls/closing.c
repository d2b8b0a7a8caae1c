/* Two contexts of one device: the objects of a context go with it, and raise no events afterwards; no object is made
 * from parts of both. Arguments: device, GID index. */

#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Exits with the line number and the failed condition. */
#define MUST(condition)                                                                          \
	do {                                                                                     \
		if (!(condition)) {                                                              \
			printf("line %d: not so: %s (errno %d)\n", __LINE__, #condition, errno); \
			exit(1);                                                                 \
		}                                                                                \
	} while (0)

enum { QKEY = 0x1234, DATAGRAMS = 5, RECEIVES = 8 };

/* 239.1.2.3 */
static union ibv_gid group = { .raw = { [10] = 0xff, 0xff, 239, 1, 2, 3 } };
static char buffer[4096] __attribute__((aligned(4096)));
static int gid_index;

/* Objects made on one context. */
struct side {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_xrcd *xrcd;
	struct ibv_comp_channel *channel;
};

static struct side open_side(struct ibv_device *device, int cqe)
{
	struct ibv_xrcd_init_attr xrcd = { .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
					   .fd = -1,
					   .oflags = O_CREAT };
	struct side s = { .context = ibv_open_device(device) };

	MUST(s.context && (s.pd = ibv_alloc_pd(s.context)));
	MUST((s.cq = ibv_create_cq(s.context, cqe, NULL, NULL, 0)) != NULL);
	MUST((s.mr = ibv_reg_mr(s.pd, buffer, sizeof buffer, IBV_ACCESS_LOCAL_WRITE)) != NULL);
	MUST((s.xrcd = ibv_open_xrcd(s.context, &xrcd)) != NULL);
	MUST((s.channel = ibv_create_comp_channel(s.context)) != NULL);
	return s;
}

static struct ibv_qp *make_ud(struct ibv_pd *pd, struct ibv_cq *send_cq, struct ibv_cq *recv_cq)
{
	struct ibv_qp_init_attr init = { .send_cq = send_cq,
					 .recv_cq = recv_cq,
					 .cap = { .max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1 },
					 .qp_type = IBV_QPT_UD };
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY };
	struct ibv_qp *qp = ibv_create_qp(pd, &init);

	if (!qp)
		return NULL;
	MUST(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY) == 0);
	a.qp_state = IBV_QPS_RTR;
	MUST(ibv_modify_qp(qp, &a, IBV_QP_STATE) == 0);
	a.qp_state = IBV_QPS_RTS;
	MUST(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0);
	return qp;
}

/* Parts of two contexts cannot be combined. */
static void strangers(struct side a, struct side b)
{
	struct ibv_srq_init_attr_ex xsrq = { .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
							  IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
					     .srq_type = IBV_SRQT_XRC,
					     .attr = { .max_wr = 1, .max_sge = 1 },
					     .pd = a.pd,
					     .xrcd = b.xrcd,
					     .cq = a.cq };

	MUST(!make_ud(a.pd, a.cq, b.cq) && errno == EINVAL);
	MUST(!make_ud(a.pd, b.cq, a.cq) && errno == EINVAL);
	MUST(!ibv_create_cq(a.context, 1, NULL, b.channel, 0) && errno == EINVAL);
	MUST(!ibv_create_srq_ex(a.context, &xsrq) && errno == EINVAL);
	xsrq.xrcd = a.xrcd;
	xsrq.cq = b.cq;
	MUST(!ibv_create_srq_ex(a.context, &xsrq) && errno == EINVAL);
	MUST(ibv_rereg_mr(a.mr, IBV_REREG_MR_CHANGE_PD, b.pd, NULL, 0, 0) == IBV_REREG_MR_ERR_INPUT);
}

static void *wait_for_completion(void *channel)
{
	struct ibv_cq *cq;
	void *context;

	ibv_get_cq_event(channel, &cq, &context);
	MUST(!"an event of a channel that is destroyed");
	return NULL;
}

static void *wait_for_news(void *context)
{
	struct ibv_async_event event;

	ibv_get_async_event(context, &event);
	MUST(!"an event of a context that is closed");
	return NULL;
}

/* Fills freed memory so that code still using it finds a mutex that is locked forever. */
static void scribble(void)
{
	for (size_t size = 16; size < 4096; size += 16) {
		void *memory;

		for (int i = 0; i < 8; i++) {
			MUST((memory = malloc(size)) != NULL);
			memset(memory, 1, size);
		}
	}
}

/* Destroys a channel, and closes its context, while threads wait for their events; others call too late. */
static void waiters(struct ibv_device *device)
{
	struct side s = open_side(device, 1);
	struct ibv_async_event event;
	struct ibv_cq *cq;
	pthread_t thread;
	void *context;

	MUST(pthread_create(&thread, NULL, wait_for_completion, s.channel) == 0);
	MUST(pthread_create(&thread, NULL, wait_for_news, s.context) == 0);
	usleep(50000);
	MUST(ibv_destroy_comp_channel(s.channel) == 0);
	MUST(ibv_get_cq_event(s.channel, &cq, &context) == -1 && errno == EBADF);
	MUST(ibv_close_device(s.context) == 0);
	MUST(ibv_get_async_event(s.context, &event) == -1 && errno == EBADF);
	scribble();
}

/* Closes a context with a queue pair that is in a multicast group and whose completion queue is about to overflow. */
static void listeners(struct side a, struct side b)
{
	struct ibv_qp *listens = make_ud(a.pd, a.cq, a.cq), *speaks = make_ud(b.pd, b.cq, b.cq);
	struct ibv_sge to = { .addr = (uintptr_t)buffer, .length = 64, .lkey = a.mr->lkey };
	struct ibv_sge from = { .addr = (uintptr_t)buffer, .length = 8, .lkey = b.mr->lkey };
	struct ibv_ah_attr path = { .is_global = 1,
				    .port_num = 1,
				    .grh = { .dgid = group, .sgid_index = gid_index, .hop_limit = 4 } };
	struct ibv_recv_wr *bad_recv, recv = { .sg_list = &to, .num_sge = 1 };
	struct ibv_send_wr *bad_send, send = { .sg_list = &from, .num_sge = 1, .opcode = IBV_WR_SEND };
	struct ibv_ah *ah = ibv_create_ah(b.pd, &path);

	MUST(listens && speaks && ah);
	MUST(ibv_attach_mcast(listens, &group, 0) == 0);
	for (int i = 0; i < RECEIVES; i++)
		MUST(ibv_post_recv(listens, &recv, &bad_recv) == 0);
	MUST(ibv_close_device(a.context) == 0);
	scribble();
	send.wr.ud.ah = ah;
	send.wr.ud.remote_qpn = 0xffffff;
	send.wr.ud.remote_qkey = QKEY;
	for (int i = 0; i < DATAGRAMS; i++)
		MUST(ibv_post_send(speaks, &send, &bad_send) == 0);
	usleep(200000);
	MUST(ibv_destroy_ah(ah) == 0 && ibv_destroy_qp(speaks) == 0);
}

int main(int argc, char **argv)
{
	struct ibv_device **list = ibv_get_device_list(NULL), *device = NULL;
	struct side a, b;

	MUST(argc == 3 && list);
	for (int i = 0; list[i]; i++)
		if (strcmp(ibv_get_device_name(list[i]), argv[1]) == 0)
			device = list[i];
	MUST(device);
	gid_index = atoi(argv[2]);
	alarm(20);

	a = open_side(device, 1);
	b = open_side(device, 64);
	strangers(a, b);
	waiters(device);
	listeners(a, b);
	puts("all as it must be");
	return 0;
}
