/* Helpers of the programs beside this file. Each program has one planted misuse for each rule of weft check, and its correct twin:
 * `PROGRAM DEVICE GID-INDEX RULE wrong|right`. Both ends of a connection are in one process. */

#include <errno.h>
#include <infiniband/verbs.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define MUST(condition) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "%s:%d: %s (errno %d)\n", __FILE__, __LINE__, #condition, errno); \
			exit(2); \
		} \
	} while (0)

/* The first half of the memory is for local buffers, the second half is the peer's target. */
enum { BYTES = 65536, REMOTE = BYTES / 2, CQ_ENTRIES = 512, QKEY = 0x11111111 };

static const int ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_comp_channel *channel;
static struct ibv_cq *cq;
static struct ibv_qp *qps[2];
static struct ibv_qp_cap caps[2];
static char *memory;
static struct ibv_mr *mr;
static union ibv_gid gid;
static int gid_index;

/* Attributes of the connection that a case may change before connect_both(). */
static struct {
	uint8_t max_rd_atomic, rnr_retry, retry_cnt, timeout, min_rnr_timer, sgid_index;
	enum ibv_mtu mtu;
} way = { .max_rd_atomic = 4, .rnr_retry = 7, .retry_cnt = 7, .timeout = 14, .min_rnr_timer = 12, .mtu = IBV_MTU_1024 };

/* A misuse and its correct twin. */
struct misuse {
	const char *rule;
	void (*run)(int is_wrong);
};

static inline char *pages(size_t length)
{
	void *at = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	MUST(at != MAP_FAILED);
	memset(at, 7, length);
	return at;
}

static inline struct ibv_mr *region(struct ibv_pd *of, void *at, size_t length, int access)
{
	struct ibv_mr *registered = ibv_reg_mr(of, at, length, access);
	MUST(registered);
	return registered;
}

static inline void open_device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	MUST(list);
	for (int i = 0; list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			context = ibv_open_device(list[i]);
	ibv_free_device_list(list);
	MUST(context);
	MUST(!ibv_query_gid(context, 1, gid_index, &gid));
}

static inline void set_up(const char *device)
{
	open_device(device);
	pd = ibv_alloc_pd(context);
	channel = ibv_create_comp_channel(context);
	MUST(pd && channel);
	cq = ibv_create_cq(context, CQ_ENTRIES, NULL, channel, 0);
	MUST(cq);
	memory = pages(BYTES);
	mr = region(pd, memory, BYTES, ACCESS);
}

static inline void tear_down(int is_wrong)
{
	int failed = 0;
	for (int i = 0; i < 2; i++)
		failed |= qps[i] && ibv_destroy_qp(qps[i]);
	failed |= mr && ibv_dereg_mr(mr);
	failed |= cq && ibv_destroy_cq(cq);
	failed |= channel && ibv_destroy_comp_channel(channel);
	failed |= pd && ibv_dealloc_pd(pd);
	failed |= context && ibv_close_device(context);
	MUST(!failed || is_wrong);
}

static inline struct ibv_qp_init_attr init_attr(enum ibv_qp_type type)
{
	return (struct ibv_qp_init_attr){
		.send_cq = cq, .recv_cq = cq, .qp_type = type, .cap = { 16, 16, 2, 2, 64 },
	};
}

static inline struct ibv_qp *create(struct ibv_qp_init_attr *init)
{
	struct ibv_qp *qp = ibv_create_qp(pd, init);
	MUST(qp);
	return qp;
}

static inline void create_both(enum ibv_qp_type type)
{
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_init_attr init = init_attr(type);
		qps[i] = create(&init);
		caps[i] = init.cap;
	}
}

static inline int to_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY, .qp_access_flags = ACCESS };
	int last = qp->qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
	if (qp->qp_type == IBV_QPT_UC)
		attr.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | last);
}

static inline int to_rtr(struct ibv_qp *qp, uint32_t peer)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = way.mtu,
		.dest_qp_num = peer,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = way.min_rnr_timer,
		.ah_attr = { .is_global = 1,
			     .port_num = 1,
			     .grh = { .dgid = gid, .sgid_index = way.sgid_index, .hop_limit = 64 } },
	};
	int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (qp->qp_type == IBV_QPT_RC)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	return ibv_modify_qp(qp, &attr, qp->qp_type == IBV_QPT_UD ? IBV_QP_STATE : mask);
}

static inline int to_rts(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.timeout = way.timeout,
		.retry_cnt = way.retry_cnt,
		.rnr_retry = way.rnr_retry,
		.max_rd_atomic = way.max_rd_atomic,
	};
	int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
	if (qp->qp_type == IBV_QPT_RC)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	return ibv_modify_qp(qp, &attr, mask);
}

static inline void connect_both(void)
{
	for (int i = 0; i < 2; i++)
		MUST(!to_init(qps[i]) && !to_rtr(qps[i], qps[!i]->qp_num) && !to_rts(qps[i]));
}

/* Two connected queue pairs of this type. */
static inline void connected(enum ibv_qp_type type)
{
	create_both(type);
	connect_both();
}

static inline struct ibv_sge piece(size_t offset, uint32_t length)
{
	return (struct ibv_sge){ (uintptr_t)memory + offset, length, mr->lkey };
}

/* A request to the peer's half of the memory. */
static inline struct ibv_send_wr request(enum ibv_wr_opcode opcode, struct ibv_sge *sge, unsigned flags)
{
	struct ibv_send_wr wr = { .wr_id = 1, .opcode = opcode, .sg_list = sge, .num_sge = 1, .send_flags = flags };
	if (opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)memory + REMOTE;
		wr.wr.atomic.rkey = mr->rkey;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)memory + REMOTE;
		wr.wr.rdma.rkey = mr->rkey;
	}
	return wr;
}

static inline int send_request(struct ibv_qp *qp, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;
	return ibv_post_send(qp, wr, &bad);
}

static inline int post(struct ibv_qp *qp, enum ibv_wr_opcode opcode, struct ibv_sge sge, unsigned flags)
{
	struct ibv_send_wr wr = request(opcode, &sge, flags);
	return send_request(qp, &wr);
}

static inline int receive(struct ibv_qp *qp, struct ibv_sge sge)
{
	struct ibv_recv_wr wr = { .wr_id = 2, .sg_list = &sge, .num_sge = 1 }, *bad;
	return ibv_post_recv(qp, &wr, &bad);
}

static inline struct ibv_wc completion(void)
{
	struct ibv_wc wc;
	time_t until = time(NULL) + 20;
	int count;
	while (!(count = ibv_poll_cq(cq, 1, &wc)))
		MUST(time(NULL) < until);
	MUST(count == 1);
	return wc;
}

static inline void completed(int count)
{
	while (count--)
		MUST(completion().status == IBV_WC_SUCCESS);
}

/* Flushes a queue pair with this many requests outstanding. */
static inline void flush(struct ibv_qp *qp, int outstanding)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	MUST(!ibv_modify_qp(qp, &attr, IBV_QP_STATE));
	while (outstanding--)
		MUST(completion().status == IBV_WC_WR_FLUSH_ERR);
}

static inline void leave(int number)
{
	(void)number;
	_exit(0);
}

/* Ends the program in a call that never returns. */
static inline void leave_soon(void)
{
	struct itimerval soon = { .it_value = { .tv_usec = 400000 } };
	signal(SIGALRM, leave);
	MUST(!setitimer(ITIMER_REAL, &soon, NULL));
}

static inline int run_misuse(int argc, char **argv, const struct misuse *cases, size_t count)
{
	MUST(argc == 5);
	int is_wrong = !strcmp(argv[4], "wrong");
	gid_index = atoi(argv[2]);
	way.sgid_index = gid_index;
	for (size_t i = 0; i < count; i++) {
		if (strcmp(argv[3], cases[i].rule))
			continue;
		alarm(40);
		set_up(argv[1]);
		cases[i].run(is_wrong);
		tear_down(is_wrong);
		return 0;
	}
	MUST(!"a rule of this program");
	return 2;
}
