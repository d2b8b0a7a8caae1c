/*
 * Edge cases of libibumad's calls: when the descriptor is readable, errors of unanswered requests, transaction IDs in
 * use, buffers that are too small, read(2) and write(2) past the library, duplicates of the descriptor, fork, a port
 * that ends.
 *
 * edges calls      prints each failed check
 * edges end        prints "waits", and then the results of calls on a port whose daemon or fabric is gone
 */
#include <errno.h>
#include <infiniband/umad.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAD = 256, SOON_MS = 5, LATE_MS = 5000 };

static void *out, *in;
static int port, agent, wrong, length;

#define CHECK(holds)                                                                                                    \
	do {                                                                                                            \
		if (!(holds) && wrong++ < 20)                                                                           \
			printf("line %d: %s (errno %d)\n", __LINE__, #holds, errno);                                    \
	} while (0)

/* A directed SubnGet(NodeInfo) of this port, or of a missing one, with this transaction ID. */
static void fill(uint32_t tid, int hops)
{
	uint8_t *mad = umad_get_mad(out);

	memset(mad, 0, MAD);
	mad[0] = 1;
	mad[1] = 0x81;
	mad[2] = 1;
	mad[3] = 1;
	mad[7] = hops;
	memcpy(mad + 12, &tid, sizeof tid);
	mad[17] = 0x11;
	memset(mad + 32, 0xff, 4);
	memset(mad + 129, 1, hops);
	umad_set_addr(out, 0xffff, 0, 0, 0);
}

static int ask(int descriptor, uint32_t tid, int hops, int timeout_ms)
{
	fill(tid, hops);
	errno = 0;
	return umad_send(descriptor, agent, out, MAD, timeout_ms, 0);
}

static int answer(int descriptor, int timeout_ms)
{
	length = MAD;
	errno = 0;
	return umad_recv(descriptor, in, &length, timeout_ms);
}

static int readable(int timeout_ms)
{
	struct pollfd fd = { umad_get_fd(port), POLLIN, 0 };

	return poll(&fd, 1, timeout_ms) == 1;
}

/* No datagram is pending, and the descriptor is not readable. */
static int quiet(void)
{
	return !readable(SOON_MS);
}

/* With poll(2), umad_poll, or umad_recv alone, few and many at once. A readable descriptor has a datagram. */
static void shows_what_waits(void)
{
	for (int round = 0; round < 20000; round++) {
		int count = round % 9, way = round % 3;

		for (int i = 0; i < count; i++)
			CHECK(!ask(port, 1000 + 10 * round + i, 0, LATE_MS));
		for (int i = 0; i < count; i++) {
			CHECK(way != 0 || readable(LATE_MS));
			CHECK(way != 1 || !umad_poll(port, LATE_MS));
			CHECK(answer(port, way == 2 ? LATE_MS : 0) == agent && length == MAD);
		}
		CHECK(!readable(0));
	}
	CHECK(quiet());
}

/* With write(2) and read(2), with an arbitrary length in the head, and mixed with the library's calls. */
static void past_the_library(void)
{
	for (int round = 0; round < 200; round++) {
		int count = round % 5, way = round % 3;
		size_t whole = umad_size() + MAD;

		for (int i = 0; i < count; i++) {
			struct ib_user_mad *head = out;

			fill(500000 + 10 * round + i, 0);
			head->agent_id = agent;
			head->timeout_ms = LATE_MS;
			head->retries = 0;
			head->length = round * 7;
			CHECK(write(umad_get_fd(port), out, whole) == (ssize_t)whole);
		}
		for (int i = 0; i < count; i++) {
			if (way == 0) {
				CHECK(answer(port, LATE_MS) == agent && length == MAD);
				continue;
			}
			CHECK(readable(LATE_MS));
			memset(in, 0xee, whole);
			CHECK(read(umad_get_fd(port), in, whole) == (ssize_t)whole);
			CHECK(((struct ib_user_mad *)in)->agent_id == (uint32_t)agent && !umad_status(in));
			CHECK(((uint8_t *)umad_get_mad(in))[3] == 0x81);
		}
		CHECK(!readable(0));
	}
	errno = 0;
	CHECK(read(umad_get_fd(port), in, umad_size() + MAD) == -1 && errno == EAGAIN);
	CHECK(quiet());
}

static void only_sends_then_reads(void)
{
	enum { COUNT = 3000 };

	for (int i = 0; i < COUNT; i++)
		CHECK(!ask(port, 100000 + i, 0, 60000));
	for (int i = 0; i < COUNT; i++) {
		CHECK(readable(LATE_MS));
		CHECK(answer(port, 0) == agent);
	}
	CHECK(quiet());
}

static void nobody_answers(void)
{
	CHECK(answer(port, 0) == -EWOULDBLOCK && errno == EWOULDBLOCK);
	for (int i = 0; i < 30; i++)
		CHECK(answer(port, 3) == -ETIMEDOUT && errno == ETIMEDOUT);
	errno = 0;
	CHECK(umad_poll(port, 3) == -ETIMEDOUT && errno == ETIMEDOUT);
	CHECK(!ask(port, 1, 9, 20));
	CHECK(answer(port, LATE_MS) == agent && umad_status(in) == ETIMEDOUT);
}

static void numbers_that_are_taken(void)
{
	CHECK(!ask(port, 5, 9, 50));
	CHECK(ask(port, 5, 9, 50) == -EIO && errno == EINVAL);
	CHECK(answer(port, LATE_MS) == agent && umad_status(in) == ETIMEDOUT);
	CHECK(!ask(port, 5, 0, LATE_MS));
	CHECK(readable(LATE_MS));
	/* Its response is there, though still unread. */
	CHECK(!ask(port, 5, 0, LATE_MS));
	for (int i = 0; i < 2; i++) {
		CHECK(readable(LATE_MS));
		CHECK(answer(port, 0) == agent);
	}
	CHECK(quiet());
}

static void too_small(void)
{
	CHECK(!ask(port, 7, 0, LATE_MS));
	length = 10;
	CHECK(umad_recv(port, in, &length, LATE_MS) == -EINVAL && length == MAD);
	CHECK(readable(LATE_MS));
	CHECK(answer(port, 0) == agent);
	CHECK(quiet());
}

static void duplicates(void)
{
	int other = dup(umad_get_fd(port));

	CHECK(!ask(other, 8, 0, LATE_MS));
	CHECK(answer(other, LATE_MS) == agent);
	close(other);
	CHECK(!ask(port, 9, 0, LATE_MS));
	CHECK(answer(port, LATE_MS) == agent);
}

/* The child uses the inherited port, and its parent continues. */
static void children(void)
{
	pid_t child;
	int status = -1;

	fflush(stdout);
	child = fork();
	for (int i = 0; i < 100; i++) {
		if (child)
			break;
		CHECK(!ask(port, 200000 + i, 0, LATE_MS));
		CHECK(answer(port, LATE_MS) == agent);
	}
	if (!child) {
		fflush(stdout);
		_exit(wrong != 0);
	}
	CHECK(waitpid(child, &status, 0) == child && !status);
	for (int i = 0; i < 100; i++) {
		CHECK(!ask(port, 300000 + i, 0, LATE_MS));
		CHECK(answer(port, LATE_MS) == agent);
	}
	CHECK(quiet());
}

static void the_end(void)
{
	printf("waits\n");
	fflush(stdout);
	CHECK(answer(port, 30000) == -ENODEV && errno == ENODEV);
	CHECK(ask(port, 10, 0, LATE_MS) == -EIO && errno == ENODEV);
	CHECK(answer(port, 0) == -ENODEV && errno == ENODEV);
	CHECK(readable(0));
}

int main(int argc, char **argv)
{
	if (umad_init() < 0 || (port = umad_open_port(NULL, 0)) < 0)
		return printf("no port: %d\n", port), 1;
	if ((agent = umad_register(port, 0x81, 1, 0, NULL)) < 0)
		return printf("no agent: %d\n", agent), 1;
	out = umad_alloc(1, umad_size() + MAD);
	in = umad_alloc(1, umad_size() + MAD);
	if (argc > 1 && !strcmp(argv[1], "end")) {
		the_end();
	} else {
		shows_what_waits();
		only_sends_then_reads();
		past_the_library();
		nobody_answers();
		numbers_that_are_taken();
		too_small();
		duplicates();
		children();
	}
	umad_close_port(port);
	printf("%s\n", wrong ? "wrong" : "all is well");
	return wrong != 0;
}
