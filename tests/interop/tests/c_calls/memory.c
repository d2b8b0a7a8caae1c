/* Invalid memory: unmapped at registration, or gone when a peer accesses it. Arguments: device, GID index. */

#define _GNU_SOURCE
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Exits with the line number and the failed condition. */
#define MUST(condition)                                                                          \
	do {                                                                                     \
		if (!(condition)) {                                                              \
			printf("line %d: not so: %s (errno %d)\n", __LINE__, #condition, errno); \
			exit(1);                                                                 \
		}                                                                                \
	} while (0)

enum { PAGE = 4096, ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ };

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static int gid_index;
static char buffer[PAGE] __attribute__((aligned(PAGE)));
static struct ibv_mr *mr;

/* The requesting queue pair, and the one that owns the memory. */
static struct ibv_qp *asks, *has;

static struct ibv_qp *make_qp(void)
{
	struct ibv_qp_init_attr init = { .send_cq = cq,
					 .recv_cq = cq,
					 .cap = { .max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1 },
					 .qp_type = IBV_QPT_RC };
	struct ibv_qp *qp = ibv_create_qp(pd, &init);

	MUST(qp);
	return qp;
}

static void join(struct ibv_qp *qp, struct ibv_qp *peer)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ALL };
	union ibv_gid gid;

	MUST(ibv_query_gid(context, 1, gid_index, &gid) == 0);
	MUST(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0);
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR,
				  .path_mtu = IBV_MTU_1024,
				  .dest_qp_num = peer->qp_num,
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

static void pair(void)
{
	asks = make_qp();
	has = make_qp();
	join(asks, has);
	join(has, asks);
}

static void part(void)
{
	MUST(ibv_destroy_qp(asks) == 0 && ibv_destroy_qp(has) == 0);
}

/* Returns the status of one operation between `local` and `remote`. */
static enum ibv_wc_status outcome(enum ibv_wr_opcode opcode, char *local, struct ibv_mr *local_mr, char *remote,
				  struct ibv_mr *remote_mr, unsigned length)
{
	struct ibv_sge sge = { .addr = (uintptr_t)local, .length = length, .lkey = local_mr->lkey };
	struct ibv_send_wr *bad, wr = { .sg_list = &sge,
					.num_sge = 1,
					.opcode = opcode,
					.send_flags = IBV_SEND_SIGNALED,
					.wr.rdma = { .remote_addr = (uintptr_t)remote, .rkey = remote_mr->rkey } };
	struct ibv_wc wc;

	MUST(ibv_post_send(asks, &wr, &bad) == 0);
	while (ibv_poll_cq(cq, 1, &wc) == 0)
		;
	return wc.status;
}

/* The peer's side of a refused access: its queue pair fails too, and its owner gets an event with the reason. */
static void is_told(void)
{
	struct ibv_async_event event;

	do {
		MUST(ibv_get_async_event(context, &event) == 0);
		ibv_ack_async_event(&event);
	} while (event.event_type == IBV_EVENT_COMM_EST);
	MUST(event.event_type == IBV_EVENT_QP_ACCESS_ERR && event.element.qp == has);
	part();
}

/* Memory that cannot be registered. */
static void registration(void)
{
	int fd = memfd_create("short", 0);
	char *longer_than_its_file;

	MUST(fd >= 0 && ftruncate(fd, PAGE) == 0);
	longer_than_its_file = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	MUST(longer_than_its_file != MAP_FAILED);
	MUST(!ibv_reg_mr(pd, longer_than_its_file, 4 * PAGE, ALL) && errno == EFAULT);
	MUST(!ibv_reg_mr(pd, buffer, (size_t)1 << 46, ALL) && errno == EFAULT);
	MUST(!ibv_reg_mr(pd, buffer, SIZE_MAX, ALL) && (errno == EFAULT || errno == EINVAL));
	MUST(!ibv_reg_mr(pd, buffer, 0, ALL) && errno == EINVAL);
	munmap(longer_than_its_file, 4 * PAGE);
	close(fd);
}

/* On-demand regions: a page that is missing when accessed fails that access, and nothing else. */
static void on_demand(void)
{
	char *map = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *region;

	MUST(map != MAP_FAILED);
	MUST((region = ibv_reg_mr(pd, map, 4 * PAGE, ALL | IBV_ACCESS_ON_DEMAND)) != NULL);
	munmap(map + PAGE, PAGE);
	MUST(mprotect(map + 2 * PAGE, PAGE, PROT_READ) == 0);
	for (int write = 0; write < 2; write++) {
		enum ibv_wr_opcode opcode = write ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ;
		pair();
		MUST(outcome(opcode, buffer, mr, map, region, PAGE) == IBV_WC_SUCCESS);
		MUST(outcome(opcode, buffer, mr, map + 3 * PAGE, region, 64) == IBV_WC_SUCCESS);
		MUST(outcome(opcode, buffer, mr, map + PAGE, region, 64) == IBV_WC_REM_ACCESS_ERR);
		is_told();
		pair();
		MUST(outcome(opcode, buffer, mr, map + PAGE / 2, region, PAGE) == IBV_WC_REM_ACCESS_ERR);
		is_told();
		pair();
		MUST(outcome(opcode, map + PAGE, region, buffer, mr, 64) == IBV_WC_LOC_PROT_ERR);
		part();
	}
	/* It is readable but not writable. */
	pair();
	MUST(outcome(IBV_WR_RDMA_READ, buffer, mr, map + 2 * PAGE, region, 64) == IBV_WC_SUCCESS);
	MUST(outcome(IBV_WR_RDMA_WRITE, buffer, mr, map + 2 * PAGE, region, 64) == IBV_WC_REM_ACCESS_ERR);
	is_told();
	MUST(ibv_dereg_mr(region) == 0);
}

/* A region that is gone when it is used. */
static void gone(void)
{
	struct ibv_mr *region = ibv_reg_mr(pd, buffer, PAGE, ALL);
	struct ibv_mr was = *region;

	pair();
	MUST(ibv_dereg_mr(region) == 0);
	MUST(outcome(IBV_WR_RDMA_WRITE, buffer, mr, buffer, &was, 64) == IBV_WC_REM_ACCESS_ERR);
	is_told();
	pair();
	MUST(outcome(IBV_WR_RDMA_WRITE, buffer, &was, buffer, mr, 64) == IBV_WC_LOC_PROT_ERR);
	part();
}

int main(int argc, char **argv)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	MUST(argc == 3 && list);
	for (int i = 0; list[i]; i++)
		if (strcmp(ibv_get_device_name(list[i]), argv[1]) == 0)
			context = ibv_open_device(list[i]);
	gid_index = atoi(argv[2]);
	alarm(30);
	MUST(context && (pd = ibv_alloc_pd(context)) && (cq = ibv_create_cq(context, 16, NULL, NULL, 0)));
	MUST((mr = ibv_reg_mr(pd, buffer, sizeof buffer, ALL)) != NULL);
	registration();
	on_demand();
	gone();
	puts("all as it must be");
	return 0;
}
