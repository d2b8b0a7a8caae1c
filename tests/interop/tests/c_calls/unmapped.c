/* Datagrams that arrive in memory which the program has unmapped, but not deregistered, as libraries with registration caches do
 * while they end a queue pair: an adapter has its pages pinned, and the program goes on. Arguments: device, GID index. */

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
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

enum { QKEY = 0x1234, RECEIVES = 32, SIZE = 4096, GRH = 40 };

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static char *memory;
static struct ibv_sge sge;
static int gid_index;

static void open_end(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_mr *mr;

	MUST(list);
	for (int i = 0; list[i]; i++)
		if (strcmp(ibv_get_device_name(list[i]), name) == 0)
			context = ibv_open_device(list[i]);
	MUST(context && (pd = ibv_alloc_pd(context)) && (cq = ibv_create_cq(context, 64, NULL, NULL, 0)));
	memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	MUST(memory != MAP_FAILED && (mr = ibv_reg_mr(pd, memory, SIZE, IBV_ACCESS_LOCAL_WRITE)));
	sge = (struct ibv_sge){ .addr = (uintptr_t)memory, .length = 8, .lkey = mr->lkey };
	struct ibv_qp_init_attr init = { .send_cq = cq,
					 .recv_cq = cq,
					 .cap = { .max_send_wr = 8, .max_recv_wr = RECEIVES, .max_send_sge = 1, .max_recv_sge = 1 },
					 .qp_type = IBV_QPT_UD };
	MUST((qp = ibv_create_qp(pd, &init)) != NULL);
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY };
	MUST(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY) == 0);
	a.qp_state = IBV_QPS_RTR;
	MUST(ibv_modify_qp(qp, &a, IBV_QP_STATE) == 0);
	a.qp_state = IBV_QPS_RTS;
	MUST(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0);
}

static void take(void)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(cq, 1, &wc) == 0)
		;
	MUST(wc.status == IBV_WC_SUCCESS);
}

/* Receives one datagram, unmaps the memory of the others, and polls again when they have arrived. */
static void receive(int from, int to)
{
	char said;

	sge.length = SIZE;
	for (int i = 0; i < RECEIVES; i++) {
		struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };
		MUST(ibv_post_recv(qp, &wr, &bad) == 0);
	}
	MUST(write(to, &qp->qp_num, 4) == 4);
	take();
	MUST(memory[GRH] == 7);
	MUST(munmap(memory, SIZE) == 0);
	MUST(write(to, "u", 1) == 1 && read(from, &said, 1) == 1);
	usleep(300000);
	for (int i = 1; i < RECEIVES; i++)
		take();
	MUST(ibv_destroy_qp(qp) == 0);
}

static void send_all(int from, int to)
{
	union ibv_gid gid;
	unsigned qpn;
	char said;

	MUST(ibv_query_gid(context, 1, gid_index, &gid) == 0);
	MUST(read(from, &qpn, 4) == 4);
	struct ibv_ah_attr attr = { .is_global = 1,
				    .port_num = 1,
				    .grh = { .dgid = gid, .sgid_index = gid_index, .hop_limit = 4 } };
	struct ibv_ah *ah = ibv_create_ah(pd, &attr);
	MUST(ah);
	memory[0] = 7;
	for (int i = 0; i < RECEIVES; i++) {
		struct ibv_send_wr *bad, wr = { .sg_list = &sge,
						.num_sge = 1,
						.opcode = IBV_WR_SEND,
						.send_flags = IBV_SEND_SIGNALED,
						.wr.ud = { .ah = ah, .remote_qpn = qpn, .remote_qkey = QKEY } };
		MUST(ibv_post_send(qp, &wr, &bad) == 0);
		take();
		if (i == 0)
			MUST(read(from, &said, 1) == 1);
	}
	MUST(write(to, "s", 1) == 1);
	usleep(300000);
}

int main(int argc, char **argv)
{
	int there[2], back[2], status;
	pid_t child;

	MUST(argc == 3);
	gid_index = atoi(argv[2]);
	MUST(pipe(there) == 0 && pipe(back) == 0 && (child = fork()) >= 0);
	alarm(50);
	open_end(argv[1]);
	if (child == 0) {
		send_all(there[0], back[1]);
		return 0;
	}
	receive(back[0], there[1]);
	MUST(wait(&status) > 0 && status == 0);
	puts("all as it must be");
	return 0;
}
