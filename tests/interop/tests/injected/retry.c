/* A program that survives failures as communication libraries do: it prints every failure, tears everything down, waits until the
 * port is active, builds everything anew and sends the message that was lost again. It sends to itself.
 * Arguments: device, GID index, number of messages, milliseconds between two messages.
 * Ends with status 0 if each message arrived, and with 1 if it gave up. */

#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BYTES = 4096, FAILURES_MAX = 200, WAIT_MS = 5000 };

static const char *device_name;
static int gid_index;
static union ibv_gid gid;
static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static struct ibv_qp *qps[2];
static unsigned char *memory;
static int failures;

static long now_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Prints a failure. */
static int failed(const char *what)
{
	printf("failure: %s\n", what);
	fflush(stdout);
	if (++failures > FAILURES_MAX) {
		printf("it gives up\n");
		exit(1);
	}
	return 0;
}

static int call_failed(const char *call, int error)
{
	char text[200];
	snprintf(text, sizeof text, "%s: %s", call, strerror(error));
	return failed(text);
}

/* Fetches the events that wait; returns whether one of them ends the connection. */
static int events(void)
{
	struct ibv_async_event event;
	int fatal = 0;
	while (!ibv_get_async_event(context, &event)) {
		printf("event: %s\n", ibv_event_type_str(event.event_type));
		fatal |= event.event_type != IBV_EVENT_PORT_ACTIVE && event.event_type != IBV_EVENT_COMM_EST &&
			 event.event_type != IBV_EVENT_PATH_MIG && event.event_type != IBV_EVENT_GID_CHANGE;
		ibv_ack_async_event(&event);
	}
	return fatal;
}

static void tear_down(void)
{
	for (int i = 0; i < 2; i++) {
		if (qps[i])
			ibv_destroy_qp(qps[i]);
		qps[i] = NULL;
	}
	if (mr)
		ibv_dereg_mr(mr);
	if (cq)
		ibv_destroy_cq(cq);
	if (pd)
		ibv_dealloc_pd(pd);
	if (context)
		ibv_close_device(context);
	mr = NULL;
	cq = NULL;
	pd = NULL;
	context = NULL;
}

static int connect_to(struct ibv_qp *qp, uint32_t peer)
{
	struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	int error = ibv_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	if (error)
		return error;
	struct ibv_qp_attr rtr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = { .is_global = 1, .port_num = 1, .grh = { .dgid = gid, .sgid_index = gid_index, .hop_limit = 64 } },
	};
	error = ibv_modify_qp(qp, &rtr,
			      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	if (error)
		return error;
	struct ibv_qp_attr rts = {
		.qp_state = IBV_QPS_RTS, .timeout = 10, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1
	};
	return ibv_modify_qp(qp, &rts,
			     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				     IBV_QP_MAX_QP_RD_ATOMIC);
}

static int open_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	if (!list)
		return call_failed("ibv_get_device_list", errno);
	for (int i = 0; list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), device_name))
			context = ibv_open_device(list[i]);
	int error = errno;
	ibv_free_device_list(list);
	if (!context)
		return call_failed("ibv_open_device", error);
	fcntl(context->async_fd, F_SETFL, fcntl(context->async_fd, F_GETFL) | O_NONBLOCK);
	return 1;
}

/* Waits until the port is active. */
static int port_is_active(void)
{
	struct ibv_port_attr attr;
	for (long end = now_ms() + WAIT_MS; now_ms() < end; usleep(1000)) {
		events();
		if (!ibv_query_port(context, 1, &attr) && attr.state == IBV_PORT_ACTIVE)
			return 1;
	}
	return failed("the port stays down");
}

static int build(void)
{
	if (!open_device() || !port_is_active())
		return 0;
	if (ibv_query_gid(context, 1, gid_index, &gid))
		return call_failed("ibv_query_gid", errno);
	if (!(pd = ibv_alloc_pd(context)))
		return call_failed("ibv_alloc_pd", errno);
	if (!(cq = ibv_create_cq(context, 16, NULL, NULL, 0)))
		return call_failed("ibv_create_cq", errno);
	if (!(mr = ibv_reg_mr(pd, memory, 2 * BYTES, IBV_ACCESS_LOCAL_WRITE)))
		return call_failed("ibv_reg_mr", errno);
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_init_attr init = {
			.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = { 4, 4, 1, 1, 0 }, .sq_sig_all = 1
		};
		if (!(qps[i] = ibv_create_qp(pd, &init)))
			return call_failed("ibv_create_qp", errno);
	}
	for (int i = 0; i < 2; i++) {
		int error = connect_to(qps[i], qps[1 - i]->qp_num);
		if (error)
			return call_failed("ibv_modify_qp", error);
	}
	return 1;
}

/* Sends a message; returns whether it arrived. */
static int deliver(uint32_t number)
{
	struct ibv_sge from = { (uintptr_t)memory, BYTES, mr->lkey }, to = { (uintptr_t)memory + BYTES, BYTES, mr->lkey };
	struct ibv_recv_wr recv = { .wr_id = 2 * number, .sg_list = &to, .num_sge = 1 }, *bad_recv;
	struct ibv_send_wr send = {
		.wr_id = 2 * number + 1, .sg_list = &from, .num_sge = 1, .opcode = IBV_WR_SEND
	}, *bad_send;
	for (int i = 0; i < BYTES; i++)
		memory[i] = (unsigned char)(number * 7 + i);
	int error = ibv_post_recv(qps[1], &recv, &bad_recv);
	if (error)
		return call_failed("ibv_post_recv", error);
	if ((error = ibv_post_send(qps[0], &send, &bad_send)))
		return call_failed("ibv_post_send", error);
	int count = 0;
	for (long end = now_ms() + WAIT_MS; count < 2 && now_ms() < end;) {
		struct ibv_wc wc;
		int polled = ibv_poll_cq(cq, 1, &wc);
		if (polled < 0)
			return failed("ibv_poll_cq");
		if (polled && wc.status != IBV_WC_SUCCESS) {
			char text[200];
			snprintf(text, sizeof text, "completion: status %d, vendor_err 0x%x, %s", wc.status, wc.vendor_err,
				 wc.wr_id == send.wr_id ? "send" : "receive");
			return failed(text);
		}
		count += polled;
		if (!polled && events())
			return failed("event");
	}
	if (count < 2)
		return failed("no completion");
	if (memcmp(memory, memory + BYTES, BYTES)) {
		printf("message %u arrived with wrong bytes\n", number);
		exit(1);
	}
	return 1;
}

int main(int argc, char **argv)
{
	if (argc != 5)
		return 2;
	device_name = argv[1];
	gid_index = atoi(argv[2]);
	memory = aligned_alloc(4096, 2 * BYTES);
	if (!memory)
		return 2;
	int count = atoi(argv[3]), pause_ms = atoi(argv[4]), is_built = 0;
	for (int number = 0; number < count;) {
		if (!is_built && !(is_built = build())) {
			tear_down();
			usleep(20000);
			continue;
		}
		if (events())
			is_built = failed("event");
		else if (deliver(number))
			number++;
		else
			is_built = 0;
		if (!is_built) {
			events();
			tear_down();
		} else
			usleep(pause_ms * 1000);
	}
	events();
	tear_down();
	printf("delivered %d messages after %d failures\n", count, failures);
	return 0;
}
