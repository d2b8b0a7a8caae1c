/* The daemon dies: each identifier gets an event on its channel, calls fail, and a program can start over. Arguments:
 * an address of this machine, and the daemon's process, which this program kills. */

#include "must.h"
#include <signal.h>

int main(int argc, char **argv)
{
	struct rdma_event_channel *channel, *again;
	struct rdma_cm_event *event;
	struct rdma_cm_id *bound, *resolved, *sync, *anew;
	int told = 0;

	MUST(argc == 3);
	channel = rdma_create_event_channel();
	MUST(channel && rdma_create_id(channel, &bound, NULL, RDMA_PS_TCP) == 0);
	MUST(rdma_create_id(channel, &resolved, NULL, RDMA_PS_TCP) == 0);
	MUST(rdma_create_id(NULL, &sync, NULL, RDMA_PS_TCP) == 0);
	MUST(rdma_bind_addr(bound, address(argv[1], 0)) == 0 && rdma_listen(bound, 1) == 0);
	MUST(rdma_resolve_addr(resolved, NULL, address(argv[1], 9), 2000) == 0);
	pass(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	MUST(kill(atoi(argv[2]), SIGKILL) == 0);

	while (told < 2) {
		event = expect(channel, RDMA_CM_EVENT_DEVICE_REMOVAL);
		MUST(event->id == bound || event->id == resolved);
		told++;
		MUST(rdma_ack_cm_event(event) == 0);
	}
	FAILS(rdma_get_cm_event(channel, &event), ENODEV);
	FAILS(rdma_resolve_route(resolved, 2000), ENODEV);
	FAILS(rdma_bind_addr(sync, address(argv[1], 0)), ENODEV);
	MUST(rdma_destroy_id(bound) == 0 && rdma_destroy_id(resolved) == 0 && rdma_destroy_id(sync) == 0);

	again = rdma_create_event_channel();
	MUST(again && rdma_create_id(again, &anew, NULL, RDMA_PS_TCP) == 0);
	MUST(rdma_resolve_addr(anew, NULL, address(argv[1], 9), 2000) == 0);
	pass(again, RDMA_CM_EVENT_ADDR_RESOLVED);
	MUST(rdma_destroy_id(anew) == 0);
	rdma_destroy_event_channel(channel);
	rdma_destroy_event_channel(again);
	puts("all as it must be");
	return 0;
}
