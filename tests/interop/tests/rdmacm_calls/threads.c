/* Many threads create, connect, acknowledge and destroy at once; a waiting thread can be cancelled; a forked child
 * starts over. Argument: an address of this machine. */

#include "must.h"
#include <stdatomic.h>
#include <sys/wait.h>

enum { CLIENTS = 6, ROUNDS = 30, SERVERS = 3 };

static const char *local;
static struct rdma_event_channel *channel;
static struct rdma_cm_id *listener;
static atomic_int accepted, gone, established;

static void make_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC };

	attr.cap = (struct ibv_qp_cap){ .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 };
	MUST(rdma_create_qp(id, NULL, &attr) == 0);
}

/* One of several threads that fetch events from one channel. */
static void *serve(void *unused)
{
	struct rdma_cm_event *event;
	struct rdma_cm_id *id, *end;

	(void)unused;
	while (rdma_get_cm_event(channel, &event) == 0) {
		id = event->id;
		end = NULL;
		switch (event->event) {
		case RDMA_CM_EVENT_CONNECT_REQUEST:
			make_qp(id);
			MUST(rdma_accept(id, NULL) == 0);
			accepted++;
			break;
		case RDMA_CM_EVENT_ESTABLISHED:
			established++;
			break;
		case RDMA_CM_EVENT_DISCONNECTED:
			rdma_disconnect(id);
			end = id;
			break;
		case RDMA_CM_EVENT_TIMEWAIT_EXIT:
			break;
		default:
			printf("server: %s\n", rdma_event_str(event->event));
			exit(1);
		}
		MUST(rdma_ack_cm_event(event) == 0);
		if (end) {
			rdma_destroy_qp(end);
			MUST(rdma_destroy_id(end) == 0);
			gone++;
		}
	}
	return NULL;
}

static void connect_once(int sync)
{
	struct sockaddr *to = address(local, ntohs(rdma_get_src_port(listener)));
	struct rdma_event_channel *own = sync ? NULL : rdma_create_event_channel();
	struct rdma_cm_id *id;

	MUST(rdma_create_id(own, &id, NULL, RDMA_PS_TCP) == 0);
	MUST(rdma_resolve_addr(id, NULL, to, 5000) == 0);
	if (own)
		pass(own, RDMA_CM_EVENT_ADDR_RESOLVED);
	MUST(rdma_resolve_route(id, 5000) == 0);
	if (own)
		pass(own, RDMA_CM_EVENT_ROUTE_RESOLVED);
	make_qp(id);
	MUST(rdma_connect(id, NULL) == 0);
	if (own)
		pass(own, RDMA_CM_EVENT_ESTABLISHED);
	MUST(rdma_disconnect(id) == 0);
	if (own)
		pass(own, RDMA_CM_EVENT_DISCONNECTED);
	rdma_destroy_qp(id);
	MUST(rdma_destroy_id(id) == 0);
	if (own)
		rdma_destroy_event_channel(own);
}

static void *client(void *number)
{
	for (int round = 0; round < ROUNDS; round++)
		connect_once((round + (int)(long)number) % 2);
	return NULL;
}

static void *wait_for_nothing(void *on)
{
	struct rdma_cm_event *event;

	rdma_get_cm_event(on, &event);
	puts("an event came from nowhere");
	exit(1);
}

static void cancelling(void)
{
	struct rdma_event_channel *quiet = rdma_create_event_channel();
	pthread_t thread;
	void *result;

	MUST(pthread_create(&thread, NULL, wait_for_nothing, quiet) == 0);
	usleep(50000);
	MUST(pthread_cancel(thread) == 0 && pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
	rdma_destroy_event_channel(quiet);
}

static void forking(void)
{
	int status;
	pid_t child = fork();

	if (child == 0) {
		connect_once(0);
		connect_once(1);
		_exit(0);
	}
	MUST(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(int argc, char **argv)
{
	pthread_t servers[SERVERS], clients[CLIENTS];
	int all = CLIENTS * ROUNDS + 2, i;

	MUST(argc >= 2);
	local = argv[1];
	channel = rdma_create_event_channel();
	MUST(channel && rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP) == 0);
	MUST(rdma_bind_addr(listener, address(local, 0)) == 0 && rdma_listen(listener, 64) == 0);
	for (i = 0; i < SERVERS; i++)
		MUST(pthread_create(&servers[i], NULL, serve, NULL) == 0);
	for (i = 0; i < CLIENTS; i++)
		MUST(pthread_create(&clients[i], NULL, client, (void *)(long)i) == 0);
	for (i = 0; i < CLIENTS; i++)
		MUST(pthread_join(clients[i], NULL) == 0);
	forking();
	for (i = 0; i < 500 && gone < all; i++)
		usleep(10000);
	if (accepted != all || gone != all) {
		printf("%d accepted, %d established, %d gone of %d\n", accepted, established, gone, all);
		return 1;
	}
	for (i = 0; i < SERVERS; i++)
		MUST(pthread_cancel(servers[i]) == 0 && pthread_join(servers[i], NULL) == 0);
	MUST(rdma_destroy_id(listener) == 0);
	rdma_destroy_event_channel(channel);
	cancelling();
	puts("all as it must be");
	return 0;
}
