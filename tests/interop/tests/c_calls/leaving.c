/* A receiver that returns from main as soon as it has its last message, and destroys nothing: the sender's last message
 * is acknowledged all the same. Before that, the two send in turns, which makes the library delay acknowledgements.
 * Arguments: device, GID index. */

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

enum { TURNS = 30, ROUNDS = 10 };

/* Data that the two exchange. */
struct end {
	unsigned qpn;
	union ibv_gid gid;
};

static char buffer[4096] __attribute__((aligned(4096)));
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_sge sge;

static void open_end(const char *name, int gid_index, int from, int to)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = NULL;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct end mine, peer;

	MUST(list);
	for (int i = 0; list[i]; i++)
		if (strcmp(ibv_get_device_name(list[i]), name) == 0)
			context = ibv_open_device(list[i]);
	MUST(context && (pd = ibv_alloc_pd(context)) && (cq = ibv_create_cq(context, 64, NULL, NULL, 0)));
	MUST((mr = ibv_reg_mr(pd, buffer, sizeof buffer, IBV_ACCESS_LOCAL_WRITE)) != NULL);
	sge = (struct ibv_sge){ .addr = (uintptr_t)buffer, .length = 8, .lkey = mr->lkey };
	struct ibv_qp_init_attr init = { .send_cq = cq,
					 .recv_cq = cq,
					 .cap = { .max_send_wr = 8, .max_recv_wr = 64, .max_send_sge = 1, .max_recv_sge = 1 },
					 .qp_type = IBV_QPT_RC };
	MUST((qp = ibv_create_qp(pd, &init)) != NULL);
	mine.qpn = qp->qp_num;
	MUST(ibv_query_gid(context, 1, gid_index, &mine.gid) == 0);
	MUST(write(to, &mine, sizeof mine) == sizeof mine && read(from, &peer, sizeof peer) == sizeof peer);

	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	MUST(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0);
	for (int i = 0; i <= TURNS; i++) {
		struct ibv_recv_wr *bad, wr = { .wr_id = 1, .sg_list = &sge, .num_sge = 1 };
		MUST(ibv_post_recv(qp, &wr, &bad) == 0);
	}
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR,
				  .path_mtu = IBV_MTU_1024,
				  .dest_qp_num = peer.qpn,
				  .max_dest_rd_atomic = 1,
				  .min_rnr_timer = 12,
				  .ah_attr = { .is_global = 1,
					       .port_num = 1,
					       .grh = { .dgid = peer.gid, .sgid_index = gid_index, .hop_limit = 4 } } };
	MUST(ibv_modify_qp(qp, &a,
			   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0);
	a = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS, .timeout = 12, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1
	};
	MUST(ibv_modify_qp(qp, &a,
			   IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				   IBV_QP_MAX_QP_RD_ATOMIC) == 0);
	MUST(write(to, &mine, 1) == 1 && read(from, &peer, 1) == 1);
}

static void say(void)
{
	struct ibv_send_wr *bad, wr = {
		.wr_id = 2, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED
	};
	MUST(ibv_post_send(qp, &wr, &bad) == 0);
}

static int sent, heard;

/* Polls until both counts are reached. */
static void await(int sends, int receives)
{
	struct ibv_wc wc;

	while (sent < sends || heard < receives) {
		if (ibv_poll_cq(cq, 1, &wc) == 0)
			continue;
		if (wc.status != IBV_WC_SUCCESS) {
			printf("%s number %d: %s\n", wc.wr_id == 1 ? "receive" : "send",
			       wc.wr_id == 1 ? heard : sent, ibv_wc_status_str(wc.status));
			exit(1);
		}
		*(wc.wr_id == 1 ? &heard : &sent) += 1;
	}
}

int main(int argc, char **argv)
{
	int gid_index, there[2], back[2], status;
	pid_t child;

	MUST(argc == 3);
	gid_index = atoi(argv[2]);
	alarm(50);
	for (int round = 0; round < ROUNDS; round++) {
		MUST(pipe(there) == 0 && pipe(back) == 0 && (child = fork()) >= 0);
		if (child == 0) {
			/* The receiver. */
			open_end(argv[1], gid_index, there[0], back[1]);
			for (int turn = 1; turn <= TURNS; turn++) {
				await(turn - 1, turn);
				say();
			}
			await(TURNS, TURNS + 1);
			return 0;
		}
		sent = heard = 0;
		if ((child = fork()) == 0) {
			/* The sender. */
			open_end(argv[1], gid_index, back[0], there[1]);
			for (int turn = 1; turn <= TURNS; turn++) {
				say();
				await(turn, turn);
			}
			say();
			await(TURNS + 1, TURNS);
			return 0;
		}
		for (int ended = 0; ended < 2; ended++)
			MUST(wait(&status) > 0 && status == 0);
		for (int i = 0; i < 2; i++)
			close(there[i]), close(back[i]);
	}
	puts("all as it must be");
	return 0;
}
