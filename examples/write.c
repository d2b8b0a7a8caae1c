/* One process, two queue pairs connected to each other: an RDMA WRITE with immediate data, checked at its target.
 *
 *     cc -o write examples/write.c -libverbs && weft run -- ./write
 *
 * It runs on any RoCE device whose GID index 0 is valid. */

#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition, what)                        \
	do {                                          \
		if (!(condition)) {                   \
			perror(what);                 \
			exit(EXIT_FAILURE);           \
		}                                     \
	} while (0)

enum { PORT = 1, GID_INDEX = 0, IMMEDIATE = 42 };

static struct ibv_qp *create_qp(struct ibv_pd *pd, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr init = { .send_cq = cq,
					 .recv_cq = cq,
					 .cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
					 .qp_type = IBV_QPT_RC };
	struct ibv_qp *qp = ibv_create_qp(pd, &init);

	CHECK(qp, "ibv_create_qp");
	return qp;
}

/* Takes a queue pair from Reset to Ready To Send, connected to its peer. */
static void connect_qp(struct ibv_qp *qp, uint32_t peer, union ibv_gid gid, enum ibv_mtu mtu)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = PORT, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };

	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), "to INIT");
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR,
				     .path_mtu = mtu,
				     .dest_qp_num = peer,
				     .max_dest_rd_atomic = 1,
				     .min_rnr_timer = 12,
				     .ah_attr = { .is_global = 1,
						  .port_num = PORT,
						  .grh = { .dgid = gid, .sgid_index = GID_INDEX, .hop_limit = 64 } } };
	CHECK(!ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
	      "to RTR");
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1
	};
	CHECK(!ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				     IBV_QP_MAX_QP_RD_ATOMIC),
	      "to RTS");
}

static struct ibv_wc poll_one(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(cq, 1, &wc) == 0)
		;
	if (wc.status != IBV_WC_SUCCESS) {
		fprintf(stderr, "completion failed: %s\n", ibv_wc_status_str(wc.status));
		exit(EXIT_FAILURE);
	}
	return wc;
}

int main(void)
{
	static char source[] = "written by RDMA", target[sizeof(source)];
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_context *context = devices && devices[0] ? ibv_open_device(devices[0]) : NULL;
	struct ibv_port_attr port;
	union ibv_gid gid;

	CHECK(context, "no RDMA device; is this under weft run?");
	CHECK(!ibv_query_port(context, PORT, &port), "ibv_query_port");
	CHECK(!ibv_query_gid(context, PORT, GID_INDEX, &gid), "ibv_query_gid");

	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *source_cq = ibv_create_cq(context, 1, NULL, NULL, 0), *target_cq = ibv_create_cq(context, 1, NULL, NULL, 0);
	struct ibv_mr *source_mr = ibv_reg_mr(pd, source, sizeof(source), 0);
	struct ibv_mr *target_mr = ibv_reg_mr(pd, target, sizeof(target), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);

	CHECK(source_cq && target_cq && source_mr && target_mr, "resources");
	struct ibv_qp *from = create_qp(pd, source_cq), *to = create_qp(pd, target_cq);

	connect_qp(from, to->qp_num, gid, port.active_mtu);
	connect_qp(to, from->qp_num, gid, port.active_mtu);

	/* Immediate data consumes a receive at the target, and tells it that the data has arrived. */
	struct ibv_recv_wr recv = { .wr_id = 1 }, *bad_recv;
	struct ibv_sge sge = { .addr = (uintptr_t)source, .length = sizeof(source), .lkey = source_mr->lkey };
	struct ibv_send_wr send = { .wr_id = 2,
				    .sg_list = &sge,
				    .num_sge = 1,
				    .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
				    .send_flags = IBV_SEND_SIGNALED,
				    .imm_data = IMMEDIATE,
				    .wr.rdma = { .remote_addr = (uintptr_t)target, .rkey = target_mr->rkey } },
			   *bad_send;

	CHECK(!ibv_post_recv(to, &recv, &bad_recv), "ibv_post_recv");
	CHECK(!ibv_post_send(from, &send, &bad_send), "ibv_post_send");
	struct ibv_wc arrived = poll_one(target_cq);

	poll_one(source_cq);
	printf("%s: \"%s\", %u bytes, immediate %u\n", ibv_get_device_name(context->device), target, arrived.byte_len,
	       arrived.imm_data);
	return strcmp(source, target) ? EXIT_FAILURE : EXIT_SUCCESS;
}
