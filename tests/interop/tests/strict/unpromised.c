/* Programs that rely on things that the specification does not promise, and that adapters mostly do. Each ends with status 0 if it
 * had luck, and with 1 and the reason if not. Arguments: device, GID index, program. */

#include <fcntl.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MUST(condition) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			exit(2); \
		} \
	} while (0)

enum { BYTES = 16384, ROUNDS = 40, QUEUES = 4 };

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_comp_channel *channel;
static struct ibv_cq *cq;
static struct ibv_qp *qps[QUEUES];
static struct ibv_mr *from, *to;
static union ibv_gid gid;
static int gid_index;
static uint8_t rnr_retry = 7, min_rnr_timer = 12;

static int unlucky(const char *why)
{
	printf("%s\n", why);
	return 1;
}

static struct ibv_mr *region(void)
{
	void *memory = aligned_alloc(4096, BYTES);
	MUST(memory);
	memset(memory, 0, BYTES);
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	MUST(mr);
	return mr;
}

static void to_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };
	MUST(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
}

static void to_rts(struct ibv_qp *qp, uint32_t peer)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = min_rnr_timer,
		.ah_attr = { .is_global = 1, .port_num = 1, .grh = { .dgid = gid, .sgid_index = gid_index, .hop_limit = 64 } },
	};
	MUST(!ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	struct ibv_qp_attr rts = {
		.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = rnr_retry, .max_rd_atomic = 1
	};
	MUST(!ibv_modify_qp(qp, &rts,
			    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				    IBV_QP_MAX_QP_RD_ATOMIC));
}

static void set_up(const char *device)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	MUST(list);
	for (int i = 0; list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), device))
			context = ibv_open_device(list[i]);
	MUST(context);
	ibv_free_device_list(list);
	MUST(!ibv_query_gid(context, 1, gid_index, &gid));
	pd = ibv_alloc_pd(context);
	channel = ibv_create_comp_channel(context);
	MUST(pd && channel);
	cq = ibv_create_cq(context, 1024, NULL, channel, 0);
	MUST(cq);
	from = region();
	to = region();
	for (int i = 0; i < QUEUES; i++) {
		struct ibv_qp_init_attr init = {
			.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = { 256, 256, 2, 1, 0 }
		};
		qps[i] = ibv_create_qp(pd, &init);
		MUST(qps[i]);
		to_init(qps[i]);
	}
}

/* Connects the queue pairs in pairs: 0 with 1, 2 with 3. */
static void connect_all(void)
{
	for (int i = 0; i < QUEUES; i++)
		to_rts(qps[i], qps[i ^ 1]->qp_num);
}

static void write_to(struct ibv_qp *qp, size_t offset, uint32_t length, int flags)
{
	struct ibv_sge sge = { (uintptr_t)from->addr + offset, length, from->lkey };
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE, .sg_list = &sge, .num_sge = 1, .send_flags = flags }, *bad;
	wr.wr.rdma.remote_addr = (uintptr_t)to->addr + offset;
	wr.wr.rdma.rkey = to->rkey;
	MUST(!ibv_post_send(qp, &wr, &bad));
}

static struct ibv_wc completion(void)
{
	struct ibv_wc wc;
	int count;
	while (!(count = ibv_poll_cq(cq, 1, &wc)))
		;
	MUST(count == 1);
	return wc;
}

static int holds(const volatile uint8_t *bytes, size_t length, uint8_t byte)
{
	for (size_t i = 0; i < length; i++)
		if (bytes[i] != byte)
			return 0;
	return 1;
}

/* The last byte of a WRITE comes last. */
static int last_byte(void)
{
	volatile uint8_t *memory = to->addr;
	connect_all();
	for (int round = 1; round <= ROUNDS; round++) {
		memset(from->addr, round, BYTES);
		write_to(qps[0], 0, 4000, IBV_SEND_SIGNALED);
		while (memory[3999] != round)
			;
		if (!holds(memory, 4000, round))
			return unlucky("the last byte came before others");
		MUST(completion().status == IBV_WC_SUCCESS);
	}
	return 0;
}

/* The second of two WRITEs comes second. */
static int write_order(void)
{
	volatile uint8_t *memory = to->addr;
	connect_all();
	for (int round = 1; round <= ROUNDS; round++) {
		memset(from->addr, round, BYTES);
		write_to(qps[0], 0, 512, 0);
		write_to(qps[0], 8192, 1, IBV_SEND_SIGNALED);
		while (memory[8192] != round)
			;
		if (!holds(memory, 512, round))
			return unlucky("the second WRITE came before the first");
		MUST(completion().status == IBV_WC_SUCCESS);
	}
	return 0;
}

static volatile int told;

static void *sender(void *unused)
{
	struct ibv_sge sge = { (uintptr_t)from->addr, 64, from->lkey };
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED
	}, *bad;
	while (!told)
		;
	MUST(!ibv_post_send(qps[0], &wr, &bad));
	return unused;
}

/* A peer that hears that this side is ready needs longer for its SEND than this side for its receive. */
static int no_receive(void)
{
	pthread_t thread;
	struct ibv_sge sge = { (uintptr_t)to->addr, 64, to->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;
	rnr_retry = 0;
	connect_all();
	MUST(!pthread_create(&thread, NULL, sender, NULL));
	usleep(10000);
	told = 1;
	MUST(!ibv_post_recv(qps[1], &wr, &bad));
	MUST(!pthread_join(thread, NULL));
	for (int i = 0; i < 2; i++) {
		struct ibv_wc wc = completion();
		if (wc.status != IBV_WC_SUCCESS)
			return unlucky(ibv_wc_status_str(wc.status));
	}
	return 0;
}

/* The queue pair that sends first completes first. */
static int completion_order(void)
{
	connect_all();
	for (int round = 0; round < ROUNDS; round++) {
		write_to(qps[0], 0, 64, IBV_SEND_SIGNALED);
		write_to(qps[2], 64, 64, IBV_SEND_SIGNALED);
		uint32_t first = completion().qp_num;
		completion();
		if (first != qps[0]->qp_num)
			return unlucky("the second queue pair completed first");
	}
	return 0;
}

/* The event of a completion is there when the completion is: all are acknowledged at the end. */
static int unacknowledged(void)
{
	struct ibv_cq *of;
	void *cookie;
	int events = 0;
	connect_all();
	MUST(!fcntl(channel->fd, F_SETFL, O_NONBLOCK));
	for (int round = 0; round < ROUNDS; round++) {
		MUST(!ibv_req_notify_cq(cq, 0));
		write_to(qps[0], 0, 64, IBV_SEND_SIGNALED);
		MUST(completion().status == IBV_WC_SUCCESS);
		events += !ibv_get_cq_event(channel, &of, &cookie);
	}
	for (int i = 0; i < QUEUES; i++)
		MUST(!ibv_destroy_qp(qps[i]));
	if (events != ROUNDS)
		return unlucky("it acknowledges events that it did not get: ibv_destroy_cq hangs");
	ibv_ack_cq_events(cq, ROUNDS);
	MUST(!ibv_destroy_cq(cq));
	return 0;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(void);
	} programs[] = {
		{ "last-byte", last_byte },
		{ "write-order", write_order },
		{ "no-receive", no_receive },
		{ "completion-order", completion_order },
		{ "unacknowledged", unacknowledged },
	};
	MUST(argc == 4);
	gid_index = atoi(argv[2]);
	set_up(argv[1]);
	alarm(60);
	for (size_t i = 0; i < sizeof programs / sizeof programs[0]; i++)
		if (!strcmp(argv[3], programs[i].name))
			return programs[i].run();
	MUST(!"a program of this file");
}
