/* Connected processes: common code of the programs beside this file. */

#include <errno.h>
#include <infiniband/verbs.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Exits with the line number and the failed condition. */
#define MUST(condition)                                                                                       \
	do {                                                                                                  \
		if (!(condition)) {                                                                           \
			fprintf(stderr, "line %d: not so: %s (errno %d)\n", __LINE__, #condition, errno);     \
			exit(1);                                                                              \
		}                                                                                             \
	} while (0)

enum { ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC };

/* Data that two processes exchange. */
struct told {
	uint32_t qpn;
	uint32_t rkey;
	uint64_t addr;
	union ibv_gid gid;
};

static const char *device;
static int gid_index;
static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;

static void open_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	MUST(list);
	for (int i = 0; list[i]; i++)
		if (strcmp(ibv_get_device_name(list[i]), device) == 0)
			context = ibv_open_device(list[i]);
	MUST(context && (pd = ibv_alloc_pd(context)) && (cq = ibv_create_cq(context, 256, NULL, NULL, 0)));
}

/* Allocates and registers memory. */
static void *region(size_t len, struct ibv_mr **mr)
{
	void *at = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	MUST(at != MAP_FAILED);
	memset(at, 0, len);
	MUST((*mr = ibv_reg_mr(pd, at, len, ALL)) != NULL);
	return at;
}

/* Creates a queue pair connected to the process at the other end of a socket, which learns of a region. */
static struct ibv_qp *meet(int socket, const struct ibv_mr *mr, struct told *peer)
{
	struct ibv_qp_init_attr init = { .send_cq = cq,
					 .recv_cq = cq,
					 .cap = { .max_send_wr = 128, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1 },
					 .qp_type = IBV_QPT_RC };
	struct ibv_qp *qp = ibv_create_qp(pd, &init);
	struct told mine = { .rkey = mr->rkey, .addr = (uintptr_t)mr->addr };

	MUST(qp);
	mine.qpn = qp->qp_num;
	MUST(ibv_query_gid(context, 1, gid_index, &mine.gid) == 0);
	MUST(write(socket, &mine, sizeof mine) == sizeof mine);
	MUST(recv(socket, peer, sizeof *peer, MSG_WAITALL) == sizeof *peer);
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ALL };
	MUST(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0);
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR,
				  .path_mtu = IBV_MTU_1024,
				  .dest_qp_num = peer->qpn,
				  .max_dest_rd_atomic = 16,
				  .min_rnr_timer = 12,
				  .ah_attr = { .is_global = 1,
					       .port_num = 1,
					       .grh = { .dgid = peer->gid, .sgid_index = gid_index, .hop_limit = 4 } } };
	MUST(ibv_modify_qp(qp, &a,
			   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0);
	a = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS, .timeout = 12, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 16
	};
	MUST(ibv_modify_qp(qp, &a,
			   IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				   IBV_QP_MAX_QP_RD_ATOMIC) == 0);
	MUST(write(socket, "r", 1) == 1 && recv(socket, &mine, 1, MSG_WAITALL) == 1);
	return qp;
}

static void post(struct ibv_qp *qp, enum ibv_wr_opcode opcode, const struct ibv_mr *mr, uint32_t len,
		 const struct told *peer, uint64_t operand)
{
	struct ibv_sge sge = { .addr = (uintptr_t)mr->addr, .length = len, .lkey = mr->lkey };
	struct ibv_send_wr *bad, wr = { .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED };

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
		wr.wr.atomic.remote_addr = peer->addr;
		wr.wr.atomic.rkey = peer->rkey;
		wr.wr.atomic.compare_add = operand;
		wr.wr.atomic.swap = operand + 1;
	} else {
		wr.wr.rdma.remote_addr = peer->addr;
		wr.wr.rdma.rkey = peer->rkey;
	}
	MUST(ibv_post_send(qp, &wr, &bad) == 0);
}

/* Returns the status of the next completion. */
static enum ibv_wc_status status(void)
{
	struct ibv_wc wc;
	int n;

	while ((n = ibv_poll_cq(cq, 1, &wc)) == 0)
		;
	MUST(n == 1);
	return wc.status;
}

static inline double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

static inline void wait_seconds(double time)
{
	struct timespec span = { .tv_sec = (time_t)time, .tv_nsec = (long)((time - (time_t)time) * 1e9) };

	nanosleep(&span, NULL);
}

/* Waits until the other end has come as far. */
static inline void part(int socket)
{
	char end;

	MUST(write(socket, "e", 1) == 1 && recv(socket, &end, 1, MSG_WAITALL) == 1);
}

/* Runs a function in a child, with the other end of a socket; returns this end. */
static int child(void (*run)(int), pid_t *pid)
{
	int pair[2];

	MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0 && (*pid = fork()) >= 0);
	if (*pid == 0) {
		close(pair[0]);
		open_device();
		run(pair[1]);
		exit(0);
	}
	close(pair[1]);
	return pair[0];
}

static inline void ended_well(pid_t pid)
{
	int how;

	MUST(waitpid(pid, &how, 0) == pid && WIFEXITED(how) && WEXITSTATUS(how) == 0);
}
