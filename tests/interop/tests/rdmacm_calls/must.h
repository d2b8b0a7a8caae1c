/* Helpers of the programs beside this file: a check, a clock, addresses. */

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Exits with the line number and the failed condition. */
#define MUST(condition)                                                                          \
	do {                                                                                     \
		errno = 0;                                                                       \
		if (!(condition)) {                                                              \
			printf("line %d: not so: %s (errno %d)\n", __LINE__, #condition, errno); \
			exit(1);                                                                 \
		}                                                                                \
	} while (0)

/* The call fails with -1 and this errno. */
#define FAILS(call, code) MUST((call) == -1 && errno == (code))

static inline long now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static inline int readable(int fd, int within_ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	return poll(&p, 1, within_ms) == 1;
}

static inline struct sockaddr *address(const char *text, int port)
{
	static __thread struct sockaddr_in sin[4];
	static __thread int turn;
	struct sockaddr_in *a = &sin[turn++ % 4];

	*a = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(port) };
	inet_pton(AF_INET, text, &a->sin_addr);
	return (struct sockaddr *)a;
}

/* Returns the next event, which must be of this kind. */
static inline struct rdma_cm_event *expect(struct rdma_event_channel *channel, enum rdma_cm_event_type kind)
{
	struct rdma_cm_event *event = NULL;

	if (!readable(channel->fd, 10000)) {
		printf("no event in 10 s, %s was to come\n", rdma_event_str(kind));
		exit(1);
	}
	MUST(rdma_get_cm_event(channel, &event) == 0);
	if (event->event != kind) {
		printf("%s (status %d) came, not %s\n", rdma_event_str(event->event), event->status,
		       rdma_event_str(kind));
		exit(1);
	}
	return event;
}

/* Takes the next event, which must be of this kind, and acknowledges it. */
static inline void pass(struct rdma_event_channel *channel, enum rdma_cm_event_type kind)
{
	MUST(rdma_ack_cm_event(expect(channel, kind)) == 0);
}
