/* A program with several rails, as communication libraries have them: it sends each message through one device, and when that
 * fails (an asynchronous event, a completion or a call), it goes on through the next and sends again what was lost. It sends to
 * itself, and numbers its messages so that one that arrived although its completion failed is not taken twice.
 * Arguments: number of messages, milliseconds between two of them, and for each rail a device and a GID index.
 * Ends with status 0 if each message arrived, and with 1 if no rail is left. */

#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BYTES = 4096, RAILS_MAX = 4, WAIT_MS = 10000 };

struct rail {
	const char *name;
	int gid_index, failed;
	struct ibv_context *context;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp *qps[2];
	unsigned char *memory;
};

static struct rail rails[RAILS_MAX];
static int rail_count;

static long now_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int fail(struct rail *rail, const char *why)
{
	printf("rail %s: %s\n", rail->name, why);
	fflush(stdout);
	rail->failed = 1;
	return 0;
}

static int connect_to(struct rail *rail, int place, const union ibv_gid *gid)
{
	struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	struct ibv_qp_attr rtr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = rail->qps[1 - place]->qp_num,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = { .is_global = 1,
			     .port_num = 1,
			     .grh = { .dgid = *gid, .sgid_index = rail->gid_index, .hop_limit = 64 } },
	};
	struct ibv_qp_attr rts = {
		.qp_state = IBV_QPS_RTS, .timeout = 12, .retry_cnt = 4, .rnr_retry = 7, .max_rd_atomic = 1
	};
	struct ibv_qp *qp = rail->qps[place];
	return ibv_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) ||
	       ibv_modify_qp(qp, &rtr,
			     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) ||
	       ibv_modify_qp(qp, &rts,
			     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				     IBV_QP_MAX_QP_RD_ATOMIC);
}

static int build(struct rail *rail)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	for (int i = 0; list && list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), rail->name))
			rail->context = ibv_open_device(list[i]);
	if (!rail->context)
		return fail(rail, "no such device");
	ibv_free_device_list(list);
	fcntl(rail->context->async_fd, F_SETFL, fcntl(rail->context->async_fd, F_GETFL) | O_NONBLOCK);
	struct ibv_pd *pd = ibv_alloc_pd(rail->context);
	union ibv_gid gid;
	rail->memory = aligned_alloc(4096, 2 * BYTES);
	if (!pd || !rail->memory || ibv_query_gid(rail->context, 1, rail->gid_index, &gid))
		return fail(rail, "no protection domain or GID");
	rail->cq = ibv_create_cq(rail->context, 16, NULL, NULL, 0);
	rail->mr = ibv_reg_mr(pd, rail->memory, 2 * BYTES, IBV_ACCESS_LOCAL_WRITE);
	if (!rail->cq || !rail->mr)
		return fail(rail, "no completion queue or memory region");
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_init_attr init = {
			.send_cq = rail->cq, .recv_cq = rail->cq, .qp_type = IBV_QPT_RC, .cap = { 4, 4, 1, 1, 0 }, .sq_sig_all = 1
		};
		if (!(rail->qps[i] = ibv_create_qp(pd, &init)))
			return fail(rail, "no queue pair");
	}
	return connect_to(rail, 0, &gid) || connect_to(rail, 1, &gid) ? fail(rail, "not connected") : 1;
}

/* Fetches the events that wait; returns whether the rail still works. */
static int events(struct rail *rail)
{
	struct ibv_async_event event;
	while (!ibv_get_async_event(rail->context, &event)) {
		int is_fatal = event.event_type == IBV_EVENT_PORT_ERR || event.event_type == IBV_EVENT_DEVICE_FATAL ||
			       event.event_type == IBV_EVENT_QP_FATAL;
		if (is_fatal)
			fail(rail, ibv_event_type_str(event.event_type));
		ibv_ack_async_event(&event);
	}
	return !rail->failed;
}

/* Sends a message through a rail; returns whether both completions succeeded. */
static int deliver(struct rail *rail, uint32_t number)
{
	struct ibv_sge from = { (uintptr_t)rail->memory, BYTES, rail->mr->lkey };
	struct ibv_sge to = { (uintptr_t)rail->memory + BYTES, BYTES, rail->mr->lkey };
	struct ibv_recv_wr recv = { .wr_id = 0, .sg_list = &to, .num_sge = 1 }, *bad_recv;
	struct ibv_send_wr send = { .wr_id = 1, .sg_list = &from, .num_sge = 1, .opcode = IBV_WR_SEND }, *bad_send;
	for (int i = 0; i < BYTES; i++)
		rail->memory[i] = (unsigned char)(number * 7 + i);
	if (ibv_post_recv(rail->qps[1], &recv, &bad_recv) || ibv_post_send(rail->qps[0], &send, &bad_send))
		return fail(rail, "a post fails");
	int count = 0;
	for (long end = now_ms() + WAIT_MS; count < 2;) {
		struct ibv_wc wc;
		int polled = ibv_poll_cq(rail->cq, 1, &wc);
		if (polled > 0 && wc.status != IBV_WC_SUCCESS)
			return fail(rail, ibv_wc_status_str(wc.status));
		count += polled;
		if (!events(rail))
			return 0;
		if (now_ms() > end)
			return fail(rail, "no completion");
	}
	if (memcmp(rail->memory, rail->memory + BYTES, BYTES)) {
		printf("message %u arrived with wrong bytes\n", number);
		exit(1);
	}
	return 1;
}

int main(int argc, char **argv)
{
	if (argc < 5)
		return 2;
	int count = atoi(argv[1]), pause_ms = atoi(argv[2]), current = 0;
	for (int i = 3; i + 1 < argc && rail_count < RAILS_MAX; i += 2)
		rails[rail_count++] = (struct rail){ .name = argv[i], .gid_index = atoi(argv[i + 1]) };
	for (int i = 0; i < rail_count; i++)
		if (!build(&rails[i]))
			return 1;
	for (int number = 0; number < count;) {
		if (current == rail_count) {
			printf("no rail is left\n");
			return 1;
		}
		if (events(&rails[current]) && deliver(&rails[current], number)) {
			number++;
			usleep(pause_ms * 1000);
		} else
			current++;
	}
	printf("delivered %d messages, the last through %s\n", count, rails[current].name);
	return 0;
}
