/* Preloaded into a client that requests a connection whether or not its server listens again yet: it delays the request
 * by LATE_MS milliseconds, like a real adapter that is slower to make a queue pair. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <rdma/rdma_cma.h>
#include <stdlib.h>
#include <unistd.h>

int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src, struct sockaddr *dst, int timeout_ms)
{
	int (*real)(struct rdma_cm_id *, struct sockaddr *, struct sockaddr *, int) =
		dlsym(RTLD_NEXT, "rdma_resolve_addr");
	const char *late = getenv("LATE_MS");

	usleep(1000 * (late ? atoi(late) : 0));
	return real(id, src, dst, timeout_ms);
}
