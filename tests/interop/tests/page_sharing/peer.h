/* Helpers of programs whose registered memory a peer process writes and reads. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Exits with the line number and the failed condition. */
#define MUST(condition)                                                                          \
	do {                                                                                     \
		if (!(condition)) {                                                              \
			printf("line %d: not so: %s (errno %d)\n", __LINE__, #condition, errno); \
			exit(1);                                                                 \
		}                                                                                \
	} while (0)

enum {
	PAGE = 4096,
	MIB = 1 << 20,
	ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
};

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static int gid_index, to_peer, from_peer;

/* An order to the peer. */
struct order {
	uint64_t addr;
	uint32_t rkey, length;
	/* Reads the range and compares it with this seed's bytes, or writes this seed's bytes. */
	uint32_t write, seed;
};

static unsigned char byte_of(uint32_t seed, size_t at)
{
	return (unsigned char)(seed * 31 + at * 7 + (at >> 8) * 13 + 1);
}

static void fill(void *to, size_t length, uint32_t seed)
{
	for (size_t i = 0; i < length; i++)
		((unsigned char *)to)[i] = byte_of(seed, i);
}

static int holds(const void *from, size_t length, uint32_t seed)
{
	for (size_t i = 0; i < length; i++)
		if (((const unsigned char *)from)[i] != byte_of(seed, i))
			return 0;
	return 1;
}

static void open_device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	MUST(list);
	for (int i = 0; list[i]; i++)
		if (strcmp(ibv_get_device_name(list[i]), name) == 0)
			context = ibv_open_device(list[i]);
	MUST(context && (pd = ibv_alloc_pd(context)) && (cq = ibv_create_cq(context, 16, NULL, NULL, 0)));
	struct ibv_qp_init_attr init = { .send_cq = cq,
					 .recv_cq = cq,
					 .cap = { .max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1 },
					 .qp_type = IBV_QPT_RC };
	MUST((qp = ibv_create_qp(pd, &init)) != NULL);
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ALL };
	MUST(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0);
}

static void connect_to(uint32_t number)
{
	union ibv_gid gid;

	MUST(ibv_query_gid(context, 1, gid_index, &gid) == 0);
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTR,
				 .path_mtu = IBV_MTU_1024,
				 .dest_qp_num = number,
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
}

/* The peer: carries out orders until there are no more. */
static void be_peer(const char *device, int orders, int answers)
{
	static char buffer[8 * MIB];
	uint32_t number;
	struct order order;
	struct ibv_mr *mr;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	open_device(device);
	MUST((mr = ibv_reg_mr(pd, buffer, sizeof buffer, ALL)) != NULL);
	MUST(write(answers, &qp->qp_num, 4) == 4 && read(orders, &number, 4) == 4);
	connect_to(number);
	MUST(write(answers, "c", 1) == 1);
	while (read(orders, &order, sizeof order) == sizeof order) {
		struct ibv_sge sge = { .addr = (uintptr_t)buffer, .length = order.length, .lkey = mr->lkey };
		struct ibv_send_wr *bad, wr = { .sg_list = &sge,
						.num_sge = 1,
						.opcode = order.write ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ,
						.send_flags = IBV_SEND_SIGNALED,
						.wr.rdma = { .remote_addr = order.addr, .rkey = order.rkey } };
		struct ibv_wc wc;
		char good;

		if (order.write)
			fill(buffer, order.length, order.seed);
		MUST(ibv_post_send(qp, &wr, &bad) == 0);
		while (ibv_poll_cq(cq, 1, &wc) == 0)
			;
		good = wc.status == IBV_WC_SUCCESS && (order.write || holds(buffer, order.length, order.seed));
		if (wc.status != IBV_WC_SUCCESS)
			printf("the peer's request ended with %s\n", ibv_wc_status_str(wc.status));
		MUST(write(answers, &good, 1) == 1);
	}
	exit(0);
}

static int peer(struct ibv_mr *mr, void *addr, size_t length, int write_it, uint32_t seed)
{
	struct order order = { (uintptr_t)addr, mr->rkey, length, write_it, seed };
	char good;

	MUST(write(to_peer, &order, sizeof order) == sizeof order && read(from_peer, &good, 1) == 1);
	return good;
}

/* Returns whether the page at an address is mapped and shared with others. */
static int is_shared(const void *addr)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[512], rights[5];
	unsigned long start, end;
	int shared = -1;

	MUST(maps);
	while (fgets(line, sizeof line, maps))
		if (sscanf(line, "%lx-%lx %4s", &start, &end, rights) == 3 && start <= (uintptr_t)addr &&
		    (uintptr_t)addr < end)
			shared = rights[3] == 's';
	fclose(maps);
	return shared;
}

static char *map(size_t length, int flags, int fd)
{
	char *at = mmap(NULL, length, PROT_READ | PROT_WRITE, flags, fd, 0);

	return at == MAP_FAILED ? NULL : at;
}

/* Starts the peer; must come before everything else. */
static pid_t start_peer(const char *device)
{
	int orders[2], answers[2];
	pid_t child;

	MUST(pipe2(orders, O_CLOEXEC) == 0 && pipe2(answers, O_CLOEXEC) == 0);
	MUST((child = fork()) >= 0);
	if (child == 0) {
		close(orders[1]);
		be_peer(device, orders[0], answers[1]);
	}
	to_peer = orders[1];
	from_peer = answers[0];
	return child;
}

static void connect_to_peer(void)
{
	uint32_t number;
	char byte;

	MUST(read(from_peer, &number, 4) == 4 && write(to_peer, &qp->qp_num, 4) == 4);
	connect_to(number);
	MUST(read(from_peer, &byte, 1) == 1);
}
