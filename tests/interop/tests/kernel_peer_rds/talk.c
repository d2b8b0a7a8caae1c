// Datagrams over AF_RDS, and what its calls return. Runs on Linux's RDS and on Weft's alike.
//
//   talk serve ADDRESS PORT COUNT          receives COUNT datagrams and sends each back
//   talk send ADDRESS PEER PORT SIZE...    sends a datagram of each size, and compares what comes back
//   talk burst ADDRESS PEER PORT COUNT SIZE   sends COUNT datagrams before it receives; they come back in order
//   talk calls ADDRESS                     calls between sockets of this host

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define RDS_FAMILY 21
#define RDS_LEVEL 276
#define CANCEL_SENT_TO 1
#define GET_MR 2
#define LARGEST (1 << 20)

static unsigned char out[LARGEST], in[LARGEST + 1];

#define MUST(what) do { if (!(what)) { \
	printf("line %d: %s: errno %d (%s)\n", __LINE__, #what, errno, strerror(errno)); exit(1); } } while (0)
#define FAILS(call, number) do { errno = 0; int result = (int)(call); if (result != -1 || errno != (number)) { \
	printf("line %d: %s: %d, errno %d (%s), not %s\n", __LINE__, #call, result, errno, strerror(errno), \
		strerror(number)); exit(1); } } while (0)

static struct sockaddr_in at(const char *address, int port)
{
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_port = htons(port) };
	MUST(inet_pton(AF_INET, address, &sin.sin_addr) == 1);
	return sin;
}

static int rds_socket(void)
{
	int fd = socket(RDS_FAMILY, SOCK_SEQPACKET, 0);
	MUST(fd >= 0);
	return fd;
}

static int bound(const char *address, int port)
{
	int fd = rds_socket(), size = 4 * LARGEST;
	struct sockaddr_in sin = at(address, port);
	MUST(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)) == 0);
	MUST(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size)) == 0);
	MUST(bind(fd, (struct sockaddr *)&sin, sizeof(sin)) == 0);
	return fd;
}

static void fill(int number, int size)
{
	unsigned state = number * 2654435761u + 1;
	for (int i = 0; i < size; i++) {
		state = state * 1664525 + 1013904223;
		out[i] = state >> 24;
	}
}

static void wait_for(int fd, short events)
{
	struct pollfd pfd = { .fd = fd, .events = events };
	MUST(poll(&pfd, 1, 60000) == 1);
	MUST(pfd.revents & events);
}

static void serve(const char *address, int port, int count)
{
	int fd = bound(address, port);
	printf("serving\n");
	fflush(stdout);
	for (int i = 0; i < count; i++) {
		struct sockaddr_in from;
		socklen_t length = sizeof(from);
		ssize_t size = recvfrom(fd, in, sizeof(in), 0, (struct sockaddr *)&from, &length);
		MUST(size >= 0 && length == sizeof(from) && from.sin_family == AF_INET);
		MUST(sendto(fd, in, size, 0, (struct sockaddr *)&from, length) == size);
	}
	// Linux forgets what a closed socket has not sent, and repeats for seconds what was lost: wait for the goodbye, which
	// may be forgotten in turn.
	struct timeval limit = { .tv_sec = 20 };
	MUST(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) == 0);
	recv(fd, in, sizeof(in), 0);
	printf("served\n");
}

static void receive(int fd, struct sockaddr_in peer, int number, int size)
{
	struct sockaddr_in from;
	struct iovec pieces[2] = { { in, 5 }, { in + 5, sizeof(in) - 5 } };
	struct msghdr message = { .msg_name = &from, .msg_namelen = sizeof(from), .msg_iov = pieces, .msg_iovlen = 2 };
	ssize_t got;
	// Linux also wakes programs when a congestion map changes.
	do {
		wait_for(fd, POLLIN);
		got = recvmsg(fd, &message, MSG_DONTWAIT);
	} while (got < 0 && errno == EAGAIN);
	MUST(got == size);
	MUST(from.sin_addr.s_addr == peer.sin_addr.s_addr && from.sin_port == peer.sin_port);
	MUST(!(message.msg_flags & MSG_TRUNC));
	fill(number, size);
	MUST(memcmp(in, out, size) == 0);
}

static void say_goodbye(int fd, struct sockaddr_in peer)
{
	MUST(sendto(fd, "", 1, 0, (struct sockaddr *)&peer, sizeof(peer)) == 1);
}

static void send_sizes(const char *address, const char *peer_address, int port, char **sizes, int count)
{
	int fd = bound(address, 0);
	struct sockaddr_in peer = at(peer_address, port);
	for (int i = 0; i < count; i++) {
		int size = atoi(sizes[i]);
		fill(i, size);
		wait_for(fd, POLLOUT);
		MUST(sendto(fd, out, size, 0, (struct sockaddr *)&peer, sizeof(peer)) == size);
		receive(fd, peer, i, size);
	}
	say_goodbye(fd, peer);
	printf("%d datagrams came back\n", count);
}

static void burst(const char *address, const char *peer_address, int port, int count, int size)
{
	int fd = bound(address, 0);
	struct sockaddr_in peer = at(peer_address, port);
	MUST(connect(fd, (struct sockaddr *)&peer, sizeof(peer)) == 0);
	pid_t child = fork();
	if (child == 0) {
		// The child sends on the parent's socket.
		for (int i = 0; i < count; i++) {
			fill(i, size);
			MUST(send(fd, out, size, 0) == size);
		}
		_exit(0);
	}
	for (int i = 0; i < count; i++)
		receive(fd, peer, i, size);
	int status;
	MUST(waitpid(child, &status, 0) == child && status == 0);
	say_goodbye(fd, peer);
	printf("%d datagrams came back in order\n", count);
}

static void addresses(const char *address)
{
	struct sockaddr_in sin = at(address, 4100), got;
	socklen_t length = sizeof(got);
	int first = rds_socket(), second = rds_socket();
	FAILS(sendto(first, "x", 1, 0, (struct sockaddr *)&sin, sizeof(sin)), ENOTCONN);
	MUST(bind(first, (struct sockaddr *)&sin, sizeof(sin)) == 0);
	MUST(getsockname(first, (struct sockaddr *)&got, &length) == 0);
	MUST(length == sizeof(got) && got.sin_port == sin.sin_port && got.sin_addr.s_addr == sin.sin_addr.s_addr);
	FAILS(bind(first, (struct sockaddr *)&sin, sizeof(sin)), EINVAL);
	FAILS(bind(second, (struct sockaddr *)&sin, sizeof(sin)), EADDRINUSE);
	struct sockaddr_in foreign = at("192.0.2.77", 4100), any = at("0.0.0.0", 4100);
	FAILS(bind(second, (struct sockaddr *)&foreign, sizeof(foreign)), EADDRNOTAVAIL);
	FAILS(bind(second, (struct sockaddr *)&any, sizeof(any)), EINVAL);
	sin.sin_port = 0;
	MUST(bind(second, (struct sockaddr *)&sin, sizeof(sin)) == 0);
	MUST(getsockname(second, (struct sockaddr *)&got, &length) == 0 && got.sin_port != 0);
	FAILS(getpeername(second, (struct sockaddr *)&got, &length), ENOTCONN);
	FAILS(send(second, "x", 1, 0), ENOTCONN);
	close(first);
	close(second);
	FAILS(socket(RDS_FAMILY, SOCK_DGRAM, 0), ESOCKTNOSUPPORT);
}

static void readiness(const char *address)
{
	int from = bound(address, 4101), to = bound(address, 4102);
	struct sockaddr_in sin = at(address, 4102);
	char small[4];
	FAILS(recv(to, small, 4, MSG_DONTWAIT), EAGAIN);
	struct timeval limit = { 0, 50000 };
	MUST(setsockopt(to, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) == 0);
	FAILS(recv(to, small, 4, 0), ETIMEDOUT);
	struct pollfd pfd = { .fd = to, .events = POLLIN | POLLOUT };
	MUST(poll(&pfd, 1, 0) == 1 && pfd.revents == POLLOUT);
	int epoll = epoll_create1(0);
	struct epoll_event event = { .events = EPOLLIN };
	MUST(epoll_ctl(epoll, EPOLL_CTL_ADD, to, &event) == 0 && epoll_wait(epoll, &event, 1, 0) == 0);
	MUST(sendto(from, "datagram", 8, 0, (struct sockaddr *)&sin, sizeof(sin)) == 8);
	MUST(epoll_wait(epoll, &event, 1, 60000) == 1);
	fd_set set;
	FD_ZERO(&set);
	FD_SET(to, &set);
	MUST(select(to + 1, &set, NULL, NULL, NULL) == 1);
	MUST(recv(to, small, 4, MSG_PEEK) == 4 && memcmp(small, "data", 4) == 0);
	struct iovec piece = { small, 4 };
	struct msghdr message = { .msg_iov = &piece, .msg_iovlen = 1 };
	MUST(recvmsg(to, &message, 0) == 4 && (message.msg_flags & MSG_TRUNC));
	FAILS(recv(to, small, 4, MSG_DONTWAIT), EAGAIN);
	MUST(sendto(from, "datagram", 8, 0, (struct sockaddr *)&sin, sizeof(sin)) == 8);
	wait_for(to, POLLIN);
	MUST(recv(to, small, 4, MSG_TRUNC) == 8);
	MUST(sendto(from, NULL, 0, 0, (struct sockaddr *)&sin, sizeof(sin)) == 0);
	wait_for(to, POLLIN);
	MUST(recv(to, small, 4, 0) == 0);
	int twin = dup(to);
	MUST(twin >= 0 && close(to) == 0);
	MUST(sendto(from, "dup", 3, 0, (struct sockaddr *)&sin, sizeof(sin)) == 3);
	wait_for(twin, POLLIN);
	MUST(read(twin, small, 4) == 3);
	close(twin);
	close(from);
	close(epoll);
}

static void options(const char *address)
{
	int fd = rds_socket(), size = 20000, value = 0;
	socklen_t length = sizeof(value);
	MUST(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)) == 0);
	MUST(getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &value, &length) == 0 && value == 2 * size);
	MUST(getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &value, &length) == 0 && value == RDS_FAMILY);
	MUST(getsockopt(fd, SOL_SOCKET, SO_TYPE, &value, &length) == 0 && value == SOCK_SEQPACKET);
	struct sockaddr_in sin = at(address, 4103);
	MUST(bind(fd, (struct sockaddr *)&sin, sizeof(sin)) == 0);
	FAILS(sendto(fd, out, size + 1, 0, (struct sockaddr *)&sin, sizeof(sin)), EMSGSIZE);
	MUST(sendto(fd, out, size, 0, (struct sockaddr *)&sin, sizeof(sin)) == size);
	wait_for(fd, POLLIN);
	MUST(recv(fd, in, sizeof(in), 0) == size);
	MUST(setsockopt(fd, RDS_LEVEL, CANCEL_SENT_TO, &sin, sizeof(sin)) == 0);
	FAILS(sendto(fd, "x", 1, MSG_OOB, (struct sockaddr *)&sin, sizeof(sin)), EOPNOTSUPP);
	close(fd);
}

int main(int argc, char **argv)
{
	alarm(240);
	if (argc == 5 && !strcmp(argv[1], "serve")) {
		serve(argv[2], atoi(argv[3]), atoi(argv[4]));
	} else if (argc > 5 && !strcmp(argv[1], "send")) {
		send_sizes(argv[2], argv[3], atoi(argv[4]), argv + 5, argc - 5);
	} else if (argc == 7 && !strcmp(argv[1], "burst")) {
		burst(argv[2], argv[3], atoi(argv[4]), atoi(argv[5]), atoi(argv[6]));
	} else if (argc == 3 && !strcmp(argv[1], "calls")) {
		addresses(argv[2]);
		readiness(argv[2]);
		options(argv[2]);
		printf("all as it must be\n");
	} else {
		return 2;
	}
	return 0;
}
