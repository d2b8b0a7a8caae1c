/* Details of rsockets that only C programs see, both ends in one process. Argument: an address of this host. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <netinet/tcp.h>
#include <rdma/rsocket.h>
#include <sys/epoll.h>
#include <sys/uio.h>

#include "../rdmacm_calls/must.h"

enum { PORT = 7471, BULK = 3000000, CROWD = 40 };

static const char *host;
static int listener;

static int option(int fd, int level, int name)
{
	int value = -1;
	socklen_t length = sizeof value;

	MUST(rgetsockopt(fd, level, name, &value, &length) == 0 && length == sizeof value);
	return value;
}

static void set(int fd, int level, int name, int value)
{
	MUST(rsetsockopt(fd, level, name, &value, sizeof value) == 0);
}

static short ready(int fd, short events, int within_ms)
{
	struct pollfd p = { .fd = fd, .events = events };
	return rpoll(&p, 1, within_ms) == 1 ? p.revents : 0;
}

static int listening(int port)
{
	int fd = rsocket(AF_INET, SOCK_STREAM, 0);

	MUST(fd >= 0);
	set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	MUST(rbind(fd, address(host, port), sizeof(struct sockaddr_in)) == 0);
	MUST(rlisten(fd, 8) == 0);
	return fd;
}

/* Connects two sockets; ends[0] is the active side. */
static void connected(int ends[2])
{
	ends[0] = rsocket(AF_INET, SOCK_STREAM, 0);
	MUST(ends[0] >= 0);
	MUST(rconnect(ends[0], address(host, PORT), sizeof(struct sockaddr_in)) == 0);
	ends[1] = raccept(listener, NULL, NULL);
	MUST(ends[1] >= 0);
}

static void closed(int ends[2])
{
	MUST(rclose(ends[0]) == 0);
	MUST(rclose(ends[1]) == 0);
}

static void options(void)
{
	int fd = rsocket(AF_INET, SOCK_STREAM, 0), value = 0;

	MUST(option(fd, SOL_SOCKET, SO_TYPE) == SOCK_STREAM);
	MUST(option(fd, SOL_SOCKET, SO_ERROR) == 0);
	MUST(option(fd, SOL_RDMA, RDMA_SQSIZE) == 384 && option(fd, SOL_RDMA, RDMA_RQSIZE) == 384);
	MUST(option(fd, SOL_RDMA, RDMA_INLINE) == 64 && option(fd, SOL_RDMA, RDMA_IOMAPSIZE) == 0);
	MUST(option(fd, SOL_SOCKET, SO_RCVBUF) == 1 << 17);
	set(fd, SOL_SOCKET, SO_RCVBUF, 1 << 18);
	MUST(option(fd, SOL_SOCKET, SO_RCVBUF) == 1 << 19);
	set(fd, SOL_SOCKET, SO_SNDBUF, 1);
	MUST(option(fd, SOL_SOCKET, SO_SNDBUF) == 4096);
	set(fd, SOL_RDMA, RDMA_SQSIZE, 1 << 20);
	MUST(option(fd, SOL_RDMA, RDMA_SQSIZE) == 0xfffe);
	set(fd, SOL_RDMA, RDMA_IOMAPSIZE, 1000);
	MUST(option(fd, SOL_RDMA, RDMA_IOMAPSIZE) == 768);
	set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	MUST(option(fd, IPPROTO_TCP, TCP_NODELAY) == 1);
	set(fd, IPPROTO_TCP, TCP_KEEPIDLE, 5);
	set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
	MUST(option(fd, SOL_SOCKET, SO_KEEPALIVE) == 1 && option(fd, IPPROTO_TCP, TCP_KEEPIDLE) == 5);
	FAILS(rsetsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &value, sizeof value), EINVAL);
	FAILS(rsetsockopt(fd, SOL_SOCKET, SO_MARK, &value, sizeof value), ENOTSUP);
	MUST(rfcntl(fd, F_GETFL) == 0);
	MUST(rfcntl(fd, F_SETFL, O_NONBLOCK) == 0 && rfcntl(fd, F_GETFL) == O_NONBLOCK);
	FAILS(rsend(fd, "x", 1, 0), ENOTCONN);
	FAILS(rrecv(fd, &value, 1, 0), ENOTCONN);
	MUST(rclose(fd) == 0);
	FAILS(rclose(fd), EBADF);
	FAILS(rsend(fd, "x", 1, 0), EBADF);
	FAILS(rsocket(AF_UNIX, SOCK_STREAM, 0), ENOTSUP);
	FAILS(rsocket(AF_INET, SOCK_RAW, 0), ENOTSUP);
}

static void without_waiting(void)
{
	int asker = rsocket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), taker;
	struct sockaddr_in own, peer;
	socklen_t length = sizeof own;
	char byte;

	MUST(rfcntl(listener, F_SETFL, O_NONBLOCK) == 0);
	FAILS(raccept(listener, NULL, NULL), EAGAIN);
	FAILS(rconnect(asker, address(host, PORT), sizeof own), EINPROGRESS);
	MUST(ready(asker, POLLOUT, 10000) == POLLOUT && option(asker, SOL_SOCKET, SO_ERROR) == 0);
	MUST(ready(listener, POLLIN, 10000) == POLLIN);
	taker = raccept(listener, (struct sockaddr *)&peer, &length);
	MUST(taker >= 0 && length == sizeof peer);
	MUST(rgetsockname(asker, (struct sockaddr *)&own, &length) == 0);
	MUST(own.sin_port == peer.sin_port && own.sin_addr.s_addr == peer.sin_addr.s_addr && peer.sin_port);
	FAILS(rrecv(asker, &byte, 1, 0), EAGAIN);
	FAILS(rrecv(taker, &byte, 1, MSG_DONTWAIT), EAGAIN);
	FAILS(rconnect(asker, address(host, PORT), sizeof own), EISCONN);
	MUST(ready(asker, POLLIN, 0) == 0);
	MUST(rsend(taker, "y", 1, 0) == 1);
	MUST(ready(asker, POLLIN, 10000) == POLLIN && rrecv(asker, &byte, 1, 0) == 1 && byte == 'y');
	MUST(rfcntl(listener, F_SETFL, 0) == 0);
	MUST(rclose(asker) == 0 && rclose(taker) == 0);
}

static void refused(void)
{
	int fd = rsocket(AF_INET, SOCK_STREAM, 0);

	FAILS(rconnect(fd, address(host, PORT + 1), sizeof(struct sockaddr_in)), ECONNREFUSED);
	MUST(rclose(fd) == 0);
	fd = rsocket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	FAILS(rconnect(fd, address(host, PORT + 1), sizeof(struct sockaddr_in)), EINPROGRESS);
	MUST(ready(fd, POLLOUT, 10000) & POLLERR);
	MUST(option(fd, SOL_SOCKET, SO_ERROR) == ECONNREFUSED && option(fd, SOL_SOCKET, SO_ERROR) == 0);
	MUST(rclose(fd) == 0);
}

static void parts(void)
{
	struct iovec out[3] = { { "ab", 2 }, { "", 0 }, { "cdef", 4 } };
	char first[3] = "", second[8] = "";
	struct iovec in[2] = { { first, 2 }, { second, 3 } };
	int ends[2];

	connected(ends);
	MUST(rwritev(ends[0], out, 3) == 6);
	MUST(ready(ends[1], POLLIN, 10000) == POLLIN);
	MUST(rrecv(ends[1], second, 6, MSG_PEEK) == 6 && !memcmp(second, "abcdef", 6));
	MUST(rreadv(ends[1], in, 2) == 5 && !memcmp(first, "ab", 2) && !memcmp(second, "cde", 3));
	MUST(rwrite(ends[0], "gh", 2) == 2);
	MUST(rrecv(ends[1], second, 3, MSG_WAITALL) == 3 && !memcmp(second, "fgh", 3));
	closed(ends);
}

static void half_closed(void)
{
	char text[8];
	int ends[2];

	connected(ends);
	MUST(rsend(ends[0], "last", 4, 0) == 4);
	MUST(rshutdown(ends[0], SHUT_WR) == 0);
	FAILS(rsend(ends[0], "x", 1, 0), EPIPE);
	MUST(rrecv(ends[1], text, sizeof text, MSG_WAITALL) == 4 && !memcmp(text, "last", 4));
	MUST(rrecv(ends[1], text, sizeof text, 0) == 0);
	MUST(rsend(ends[1], "answer", 6, 0) == 6);
	MUST(rrecv(ends[0], text, 6, MSG_WAITALL) == 6 && !memcmp(text, "answer", 6));
	MUST(rclose(ends[1]) == 0);
	MUST(rrecv(ends[0], text, sizeof text, 0) == 0);
	MUST(ready(ends[0], POLLIN, 0) & POLLHUP);
	FAILS(rsend(ends[0], "x", 1, 0), ECONNRESET);
	MUST(rclose(ends[0]) == 0);
}

static void *drain(void *arg)
{
	static char buffer[BULK];
	int fd = *(int *)arg, i;

	usleep(100000);
	for (i = 0; i < BULK;) {
		ssize_t got = rrecv(fd, buffer + i, 10007 < BULK - i ? 10007 : BULK - i, 0);
		MUST(got > 0);
		i += got;
	}
	for (i = 0; i < BULK; i++)
		MUST(buffer[i] == (char)(i * 7 + i / 251));
	return NULL;
}

static void bulk(void)
{
	static char buffer[BULK];
	pthread_t thread;
	int ends[2], i, full = 0;

	for (i = 0; i < BULK; i++)
		buffer[i] = (char)(i * 7 + i / 251);
	connected(ends);
	MUST(rfcntl(ends[0], F_SETFL, O_NONBLOCK) == 0);
	MUST(pthread_create(&thread, NULL, drain, &ends[1]) == 0);
	for (i = 0; i < BULK;) {
		ssize_t sent = rsend(ends[0], buffer + i, BULK - i, 0);
		if (sent > 0) {
			i += sent;
			continue;
		}
		MUST(sent == -1);
		full++;
		MUST(ready(ends[0], POLLOUT, 10000) & POLLOUT);
	}
	MUST(full > 0);
	pthread_join(thread, NULL);
	closed(ends);
}

static void *send_all(void *arg)
{
	static char buffer[BULK];
	int fd = *(int *)arg, i;

	for (i = 0; i < BULK; i++)
		buffer[i] = (char)(i * 7 + i / 251);
	MUST(rsend(fd, buffer, BULK, 0) == BULK);
	return NULL;
}

static void *receive_all(void *arg)
{
	char *buffer = malloc(BULK);
	int i;

	MUST(rrecv(*(int *)arg, buffer, BULK, MSG_WAITALL) == BULK);
	for (i = 0; i < BULK; i++)
		MUST(buffer[i] == (char)(i * 7 + i / 251));
	free(buffer);
	return NULL;
}

/* Four threads: both ends send and receive at once. */
static void both_ways(void)
{
	pthread_t threads[4];
	int ends[2], i;

	connected(ends);
	for (i = 0; i < 4; i++)
		MUST(pthread_create(&threads[i], NULL, i & 2 ? send_all : receive_all, &ends[i & 1]) == 0);
	for (i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	closed(ends);
}

static void kept_alive(void)
{
	char byte;
	int ends[2];

	connected(ends);
	set(ends[0], IPPROTO_TCP, TCP_KEEPIDLE, 1);
	set(ends[0], SOL_SOCKET, SO_KEEPALIVE, 1);
	FAILS(rrecv(ends[1], &byte, 1, MSG_DONTWAIT), EAGAIN);
	MUST(ready(ends[1], POLLIN, 1300) == 0);
	MUST(rsend(ends[0], "k", 1, 0) == 1 && rrecv(ends[1], &byte, 1, 0) == 1 && byte == 'k');
	set(ends[0], SOL_SOCKET, SO_KEEPALIVE, 0);
	closed(ends);
}

static void mixed(void)
{
	int ends[2], pipe_ends[2];
	fd_set set;
	struct timeval limit = { .tv_sec = 10 };
	char byte;

	connected(ends);
	MUST(pipe(pipe_ends) == 0);
	struct pollfd fds[3] = {
		{ .fd = ends[1], .events = POLLIN }, { .fd = -1, .events = POLLIN }, { .fd = pipe_ends[0], .events = POLLIN }
	};
	long before = now_ms();
	MUST(rpoll(fds, 3, 50) == 0 && now_ms() - before >= 45);
	MUST(write(pipe_ends[1], "p", 1) == 1);
	MUST(rpoll(fds, 3, 10000) == 1 && fds[2].revents == POLLIN && !fds[0].revents);
	MUST(rsend(ends[0], "s", 1, 0) == 1);
	MUST(read(pipe_ends[0], &byte, 1) == 1);
	MUST(rpoll(fds, 3, 10000) == 1 && fds[0].revents == POLLIN && !fds[2].revents);
	FD_ZERO(&set);
	FD_SET(ends[1], &set);
	FD_SET(pipe_ends[0], &set);
	int highest = ends[1] > pipe_ends[0] ? ends[1] : pipe_ends[0];
	MUST(rselect(highest + 1, &set, NULL, NULL, &limit) == 1);
	MUST(FD_ISSET(ends[1], &set) && !FD_ISSET(pipe_ends[0], &set));
	MUST(rrecv(ends[1], &byte, 1, 0) == 1);
	close(pipe_ends[0]);
	close(pipe_ends[1]);
	closed(ends);
}

static void *receive_one(void *arg)
{
	char byte;
	return (void *)rrecv(*(int *)arg, &byte, 1, 0);
}

static void woken(void)
{
	pthread_t threads[2];
	void *got[2];
	int ends[2], i;

	/* Two threads sleep for one socket; one byte, and then the end, must wake both. */
	connected(ends);
	for (i = 0; i < 2; i++)
		MUST(pthread_create(&threads[i], NULL, receive_one, &ends[1]) == 0);
	usleep(50000);
	MUST(rsend(ends[0], "x", 1, 0) == 1);
	usleep(50000);
	MUST(rclose(ends[0]) == 0);
	for (i = 0; i < 2; i++)
		pthread_join(threads[i], &got[i]);
	MUST((long)got[0] + (long)got[1] == 1);
	MUST(rclose(ends[1]) == 0);
}

static void direct(void)
{
	static char target[100000], source[100000];
	int ends[2], server, i;
	char note;

	server = listening(PORT + 2);
	set(server, SOL_RDMA, RDMA_IOMAPSIZE, 2);
	ends[0] = rsocket(AF_INET, SOCK_STREAM, 0);
	set(ends[0], SOL_RDMA, RDMA_IOMAPSIZE, 2);
	MUST(rconnect(ends[0], address(host, PORT + 2), sizeof(struct sockaddr_in)) == 0);
	ends[1] = raccept(server, NULL, NULL);
	MUST(ends[1] >= 0);
	MUST(riomap(ends[1], target, sizeof target, PROT_WRITE, 0, 4096) == 4096);
	MUST(riomap(ends[1], source, 10, PROT_WRITE, 0, -1) == (off_t)(uintptr_t)source);
	FAILS(riomap(ends[1], source, 20, PROT_WRITE, 0, 0), ENOMEM);
	MUST(rsend(ends[1], "m", 1, 0) == 1 && rrecv(ends[0], &note, 1, 0) == 1);
	for (i = 0; i < (int)sizeof source; i++)
		source[i] = (char)(i * 13);
	MUST(riowrite(ends[0], source, sizeof source, 4096, 0) == sizeof source);
	MUST(rsend(ends[0], "d", 1, 0) == 1 && rrecv(ends[1], &note, 1, 0) == 1 && note == 'd');
	MUST(!memcmp(target, source, sizeof source));
	MUST(riowrite(ends[0], source, 10, 1 << 30, 0) == 0);
	MUST(riounmap(ends[1], target, sizeof target) == 0);
	FAILS(riounmap(ends[1], target, sizeof target), EINVAL);
	closed(ends);
	MUST(rclose(server) == 0);
}

static void crowd(void)
{
	int askers[CROWD], takers[CROWD], i;
	char byte;

	for (i = 0; i < CROWD; i++) {
		askers[i] = rsocket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
		FAILS(rconnect(askers[i], address(host, PORT), sizeof(struct sockaddr_in)), EINPROGRESS);
	}
	for (i = 0; i < CROWD; i++)
		MUST((takers[i] = raccept(listener, NULL, NULL)) >= 0);
	for (i = 0; i < CROWD; i++) {
		MUST(ready(askers[i], POLLOUT, 10000) == POLLOUT);
		MUST(rsend(askers[i], "c", 1, 0) == 1);
	}
	for (i = 0; i < CROWD; i++) {
		MUST(rrecv(takers[i], &byte, 1, 0) == 1 && byte == 'c');
		MUST(rclose(askers[i]) == 0 && rclose(takers[i]) == 0);
	}
}

static void datagrams(void)
{
	static char large[4000];
	struct sockaddr_in from;
	socklen_t length = sizeof from;
	char text[16];
	int server = rsocket(AF_INET, SOCK_DGRAM, 0), client = rsocket(AF_INET, SOCK_DGRAM, 0), i;

	MUST(server >= 0 && client >= 0);
	MUST(option(server, SOL_SOCKET, SO_TYPE) == SOCK_DGRAM);
	MUST(rbind(server, address(host, PORT), sizeof from) == 0);
	FAILS(rsend(client, "x", 1, 0), EDESTADDRREQ);
	for (i = 0; i < 50; i++) {
		MUST(rsendto(client, "hello", 5, 0, address(host, PORT), sizeof from) == 5);
		MUST(ready(server, POLLIN, 10000) == POLLIN);
		length = sizeof from;
		MUST(rrecvfrom(server, text, sizeof text, 0, (struct sockaddr *)&from, &length) == 5);
		MUST(length == sizeof from && from.sin_family == AF_INET && from.sin_port);
		MUST(rsendto(server, "back", 4, 0, (struct sockaddr *)&from, length) == 4);
		MUST(rrecv(client, text, 2, 0) == 2 && !memcmp(text, "ba", 2));
	}
	FAILS(rrecv(client, text, sizeof text, MSG_DONTWAIT), EAGAIN);
	FAILS(rsendto(client, large, sizeof large, 0, address(host, PORT), sizeof from), EMSGSIZE);
	MUST(rclose(client) == 0 && rclose(server) == 0);
}

static void kept_interests(void)
{
	int (*create)(int) = dlsym(RTLD_DEFAULT, "repoll_create");
	int (*control)(int, int, int, struct epoll_event *) = dlsym(RTLD_DEFAULT, "repoll_ctl");
	int (*wait)(int, struct epoll_event *, int, int) = dlsym(RTLD_DEFAULT, "repoll_wait");
	struct epoll_event event = { .events = EPOLLIN, .data.u64 = 77 }, got[4];
	int ends[2], set;

	MUST(create && control && wait);
	connected(ends);
	MUST((set = create(0)) >= 0);
	MUST(control(set, EPOLL_CTL_ADD, ends[1], &event) == 0);
	FAILS(control(set, EPOLL_CTL_ADD, ends[1], &event), EEXIST);
	MUST(wait(set, got, 4, 0) == 0);
	MUST(rsend(ends[0], "e", 1, 0) == 1);
	MUST(wait(set, got, 4, 10000) == 1 && got[0].data.u64 == 77 && got[0].events == EPOLLIN);
	MUST(control(set, EPOLL_CTL_DEL, ends[1], NULL) == 0);
	FAILS(control(set, EPOLL_CTL_DEL, ends[1], NULL), ENOENT);
	MUST(rclose(set) == 0);
	closed(ends);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} parts_of_it[] = {
		{ "options", options },       { "without waiting", without_waiting },
		{ "refused", refused },       { "parts", parts },
		{ "half closed", half_closed }, { "bulk", bulk },
		{ "both ways", both_ways },   { "kept alive", kept_alive },
		{ "mixed", mixed },           { "woken", woken },
		{ "direct", direct },         { "crowd", crowd },
		{ "datagrams", datagrams },   { "kept interests", kept_interests },
	};
	unsigned i;

	setvbuf(stdout, NULL, _IONBF, 0);
	MUST(argc == 2);
	host = argv[1];
	listener = listening(PORT);
	for (i = 0; i < sizeof parts_of_it / sizeof *parts_of_it; i++) {
		printf("%s\n", parts_of_it[i].name);
		parts_of_it[i].run();
	}
	MUST(rclose(listener) == 0);
	printf("all as it must be\n");
	return 0;
}
