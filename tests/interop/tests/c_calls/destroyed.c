/* Completions of a destroyed queue pair are no longer polled, as with drivers of adapters; those of others are, in
 * order. First of all: opening a device leaves no library thread about to create a malloc arena of its own, with calls
 * that MPI libraries replace. Arguments: device, GID index. */

#include <errno.h>
#include <infiniband/verbs.h>
#include <malloc.h>
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

/* More completions than an extended poll fetches at once. */
enum { SENDS = 24 };

static struct ibv_context *context;
static struct ibv_pd *pd;
static int gid_index;
static char buffer[4096] __attribute__((aligned(4096)));
static struct ibv_mr *mr;

/* Arenas of the C library's allocator: it makes one for each thread that allocates. */
static int arenas(void)
{
	char *text = NULL;
	size_t length;
	FILE *file = open_memstream(&text, &length);
	int count = 0;

	MUST(file && malloc_info(0, file) == 0 && fclose(file) == 0);
	for (const char *at = text; (at = strstr(at, "<heap nr=")) != NULL; at++)
		count++;
	free(text);
	return count;
}

static struct ibv_qp *make_qp(struct ibv_cq *send_cq, struct ibv_cq *recv_cq, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr init = { .send_cq = send_cq,
					 .recv_cq = recv_cq,
					 .srq = srq,
					 .cap = { .max_send_wr = 64, .max_recv_wr = 64, .max_send_sge = 1, .max_recv_sge = 1 },
					 .qp_type = IBV_QPT_RC };
	struct ibv_qp *qp = ibv_create_qp(pd, &init);
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	union ibv_gid gid;

	MUST(qp && ibv_query_gid(context, 1, gid_index, &gid) == 0);
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
	return qp;
}

static void send_to_itself(struct ibv_qp *qp, struct ibv_srq *srq, uint64_t wr_id)
{
	struct ibv_sge s = { .addr = (uintptr_t)buffer, .length = 8, .lkey = mr->lkey };
	struct ibv_recv_wr *bad_receive, receive = { .wr_id = wr_id, .sg_list = &s, .num_sge = 1 };
	struct ibv_send_wr *bad, send = {
		.wr_id = wr_id, .sg_list = &s, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED
	};

	MUST((srq ? ibv_post_srq_recv(srq, &receive, &bad_receive) : ibv_post_recv(qp, &receive, &bad_receive)) == 0);
	MUST(ibv_post_send(qp, &send, &bad) == 0);
}

/* Two queue pairs with completions, and a third whose completions are between theirs. */
static void polled_afterwards(struct ibv_srq *srq)
{
	struct ibv_cq *sends = ibv_create_cq(context, 64, NULL, NULL, 0), *receives = ibv_create_cq(context, 64, NULL, NULL, 0);
	struct ibv_qp *gone[2], *stays;
	struct ibv_wc wc[16];

	MUST(sends && receives);
	for (int i = 0; i < 2; i++)
		gone[i] = make_qp(sends, receives, srq);
	stays = make_qp(sends, receives, srq);
	for (int i = 0; i < 3; i++) {
		send_to_itself(gone[0], srq, i);
		send_to_itself(stays, srq, i);
		send_to_itself(gone[1], srq, i);
		usleep(20000);
	}
	for (int i = 0; i < 2; i++)
		MUST(ibv_destroy_qp(gone[i]) == 0);
	for (struct ibv_cq *cq = sends;; cq = receives) {
		for (int i = 0; i < 3; i++) {
			int got = 0;
			while ((got = ibv_poll_cq(cq, 1, wc)) == 0)
				;
			MUST(got == 1 && wc->qp_num == stays->qp_num && wc->status == IBV_WC_SUCCESS && wc->wr_id == (uint64_t)i);
		}
		MUST(ibv_poll_cq(cq, 16, wc) == 0);
		if (cq == receives)
			break;
	}
	MUST(ibv_destroy_qp(stays) == 0 && ibv_destroy_cq(sends) == 0 && ibv_destroy_cq(receives) == 0);
}

/* Destroys a queue pair in the middle of an extended poll over its completions. */
static void in_mid_poll(void)
{
	struct ibv_cq_init_attr_ex init = { .cqe = 4 * SENDS, .wc_flags = IBV_WC_EX_WITH_QP_NUM };
	struct ibv_poll_cq_attr none = { 0 };
	struct ibv_cq_ex *cq = ibv_create_cq_ex(context, &init);
	struct ibv_cq *receives = ibv_create_cq(context, SENDS, NULL, NULL, 0);
	struct ibv_qp *gone, *stays;
	uint64_t current;
	int next;
	uint32_t number;

	MUST(cq && receives);
	gone = make_qp(ibv_cq_ex_to_cq(cq), receives, NULL);
	stays = make_qp(ibv_cq_ex_to_cq(cq), receives, NULL);
	number = gone->qp_num;
	for (int i = 0; i < SENDS; i++)
		send_to_itself(i % 4 == 3 ? stays : gone, NULL, i);
	usleep(50000);
	while (ibv_start_poll(cq, &none) == ENOENT)
		;
	/* Queue pairs complete in any order among each other. */
	for (next = 3; ibv_wc_read_qp_num(cq) != number; next += 4) {
		MUST(cq->wr_id == (uint64_t)next);
		while (ibv_next_poll(cq) == ENOENT)
			;
	}
	current = cq->wr_id;
	MUST(current == 0);
	MUST(ibv_destroy_qp(gone) == 0);
	/* The current completion can still be read. */
	MUST(cq->wr_id == current && cq->status == IBV_WC_SUCCESS && ibv_wc_read_qp_num(cq) == number);
	for (int i = next; i < SENDS; i += 4) {
		while (ibv_next_poll(cq) == ENOENT)
			;
		MUST(cq->wr_id == (uint64_t)i && ibv_wc_read_qp_num(cq) == stays->qp_num);
	}
	MUST(ibv_next_poll(cq) == ENOENT);
	ibv_end_poll(cq);
	MUST(ibv_destroy_qp(stays) == 0 && ibv_destroy_cq(ibv_cq_ex_to_cq(cq)) == 0 && ibv_destroy_cq(receives) == 0);
}

int main(int argc, char **argv)
{
	struct ibv_srq_init_attr srq_init = { .attr = { .max_wr = 64, .max_sge = 1 } };
	struct ibv_device **list;
	struct ibv_srq *srq;
	int count;

	MUST(argc == 3 && (list = ibv_get_device_list(NULL)) != NULL);
	gid_index = atoi(argv[2]);
	alarm(50);
	for (int i = 0; list[i]; i++)
		if (strcmp(ibv_get_device_name(list[i]), argv[1]) == 0)
			context = ibv_open_device(list[i]);
	count = arenas();
	MUST(context && (pd = ibv_alloc_pd(context)));
	MUST((mr = ibv_reg_mr(pd, buffer, sizeof buffer, IBV_ACCESS_LOCAL_WRITE)) != NULL);
	MUST((srq = ibv_create_srq(pd, &srq_init)) != NULL);
	polled_afterwards(NULL);
	polled_afterwards(srq);
	in_mid_poll();
	MUST(arenas() == count);
	puts("all as it must be");
	return 0;
}
